//! Bounded channels between executors and other threads.
//!
//! Both ends work anywhere: `send`/`recv` block and belong on plain threads, `send_async`/`recv_async` belong on
//! executors, of this runtime or of tokio. A wake-up from a foreign thread reaches a sleeping executor at once:
//! it goes over the executor's event descriptor.

pub use flume::{Receiver, RecvError, RecvTimeoutError, SendError, Sender, TryRecvError, TrySendError};

/// A channel that holds at most `capacity` messages; at least one.
#[must_use]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    flume::bounded(capacity.max(1))
}

/// A channel for one answer.
#[must_use]
pub fn reply<T>() -> (Sender<T>, Receiver<T>) {
    flume::bounded(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::boot::{processors, run_local, spawn_pinned};
    use crate::runtime::{Clock, sleep};

    const MESSAGES: u64 = 100_000;

    #[test]
    fn a_hundred_thousand_round_trips_with_a_plain_thread_lose_no_wake_up() {
        let (requests, inbox) = bounded::<u64>(64);
        let (outbox, answers) = bounded::<u64>(64);
        let echo = std::thread::spawn(move || inbox.iter().try_for_each(|n| outbox.send(n + 1)));
        let sum = run_local(async move {
            let sending = async {
                for n in 0..MESSAGES {
                    requests.send_async(n).await.unwrap();
                }
                drop(requests);
            };
            let receiving = async {
                let mut sum = 0;
                while let Ok(n) = answers.recv_async().await {
                    sum += n;
                }
                sum
            };
            futures_lite::future::zip(sending, receiving).await.1
        });
        assert_eq!(sum, MESSAGES * (MESSAGES + 1) / 2);
        echo.join().unwrap().unwrap();
    }

    #[test]
    fn one_at_a_time_round_trips_with_tokio_lose_no_wake_up() {
        let (requests, inbox) = bounded::<Sender<u64>>(1);
        let tokio = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut count = 0;
                while let Ok(answer) = inbox.recv_async().await {
                    count += 1;
                    answer.send_async(count).await.unwrap();
                }
            });
        });
        let shard = spawn_pinned("channel", processors()[0], move || async move {
            let mut last = 0;
            for _ in 0..20_000 {
                let (sender, receiver) = reply();
                requests.send_async(sender).await.unwrap();
                last = receiver.recv_async().await.unwrap();
            }
            last
        });
        assert_eq!(shard.unwrap().join().unwrap(), 20_000);
        tokio.join().unwrap();
    }

    #[test]
    fn a_sleeping_executor_is_woken_promptly() {
        let clock = Clock::start();
        let (sender, receiver) = bounded(1);
        let thread = std::thread::spawn(move || {
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(2));
                sender.send(clock.now()).unwrap();
            }
        });
        let mut delays = run_local(async move {
            let mut delays = Vec::new();
            let guard = sleep(Duration::from_secs(60));
            let reading = async {
                while let Ok(sent_at) = receiver.recv_async().await {
                    delays.push(clock.now().since(sent_at).0);
                }
            };
            futures_lite::future::or(reading, guard).await;
            delays
        });
        thread.join().unwrap();
        delays.sort_unstable();
        assert_eq!(delays.len(), 100);
        assert!(delays[50] < 20_000, "the median wake-up took {} µs", delays[50]);
    }
}
