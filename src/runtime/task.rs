//! Tasks of the current executor.

use std::future::Future;

/// Runs `future` on the current executor; nobody waits for it.
///
/// # Panics
/// When called outside an executor.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    glommio::spawn_local(future).detach();
}

/// Lets the other tasks of the executor run.
pub async fn yield_now() {
    futures_lite::future::yield_now().await;
}

/// Whether the current task has run long enough that others should have their turn.
#[must_use]
pub fn turn_is_over() -> bool {
    glommio::executor().need_preempt()
}
