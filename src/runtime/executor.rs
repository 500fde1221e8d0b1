//! Where hyper's HTTP/2 connections put their tasks: on the current executor.

use std::future::Future;

/// hyper's executor on this runtime; tasks stay on the thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        super::task::spawn(async move {
            future.await;
        });
    }
}
