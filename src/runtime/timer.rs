//! Waiting: sleeps and timeouts on the current executor, and hyper's timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Waits for `span`.
pub async fn sleep(span: Duration) {
    glommio::timer::Timer::new(span).await;
}

/// Runs `future` for at most `span`; `None` when it did not end in time. The future is dropped then.
pub async fn timeout<T>(span: Duration, future: impl Future<Output = T>) -> Option<T> {
    futures_lite::future::or(async { Some(future.await) }, async {
        sleep(span).await;
        None
    })
    .await
}

/// hyper's timer on this runtime, for the header timeout of servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyperTimer;

impl hyper::rt::Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(OwnedSleep { owner: thread::current().id(), timer: Some(glommio::timer::Timer::new(duration)) })
    }

    #[expect(clippy::disallowed_methods, reason = "hyper's own deadlines are instants")]
    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(Instant::now()))
    }
}

/// A timer that only its own thread touches, though hyper asks for one that could travel.
struct OwnedSleep {
    owner: ThreadId,
    timer: Option<glommio::timer::Timer>,
}

// SAFETY: the timer is reached only in `poll`, which asserts that it runs on the owning thread, and in `drop`,
// which leaks the timer on any other thread instead of touching it.
unsafe impl Send for OwnedSleep {}
// SAFETY: no method takes a shared reference to the timer.
unsafe impl Sync for OwnedSleep {}

impl hyper::rt::Sleep for OwnedSleep {}

impl Future for OwnedSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        assert_eq!(self.owner, thread::current().id(), "a connection stays on its thread");
        match &mut self.timer {
            Some(timer) => Pin::new(timer).poll(context).map(|_| ()),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for OwnedSleep {
    fn drop(&mut self) {
        if self.owner != thread::current().id() {
            std::mem::forget(self.timer.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Clock;
    use crate::runtime::boot::run_local;

    #[test]
    fn a_timeout_drops_what_is_late_and_passes_what_is_not() {
        let (late, in_time) = run_local(async {
            let late = timeout(Duration::from_millis(5), futures_lite::future::pending::<u8>()).await;
            (late, timeout(Duration::from_secs(60), async { 7 }).await)
        });
        assert_eq!(late, None);
        assert_eq!(in_time, Some(7));
    }

    #[test]
    fn a_sleep_ends_at_its_time_not_long_after() {
        let worst = run_local(async {
            let clock = Clock::start();
            let mut late = Vec::new();
            for _ in 0..50 {
                let before = clock.now();
                sleep(Duration::from_millis(2)).await;
                late.push(clock.now().since(before).0.saturating_sub(2_000));
            }
            late.sort_unstable();
            late[late.len() / 2]
        });
        assert!(worst < 20_000, "a 2 ms sleep was {worst} µs late in the median");
    }
}
