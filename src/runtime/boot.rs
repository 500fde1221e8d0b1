//! Starting executors: one named, pinned thread each, after a look at whether the machine allows it.

use std::future::Future;
use std::io;
use std::time::Duration;

use glommio::{GlommioError, LocalExecutorBuilder, Placement};

use super::{task, timer};

/// Memory for disk I/O, which the hub does elsewhere: the least glommio takes, since it counts against the
/// limit on locked memory once per ring.
const IO_MEMORY_BYTES: usize = 64 * 1024;
/// Entries of each io_uring queue. A full queue is submitted early, so it bounds batches, not connections.
const RING_DEPTH: usize = 256;
/// How often a busy executor looks after I/O and timers.
const PREEMPT_EVERY: Duration = Duration::from_millis(20);
/// How often an executor wakes up by itself.
///
/// glommio 0.9 has a gap: where the system takes the thread off its processor for longer than the preemption
/// timer just before the executor runs its tasks, the executor takes "time is up" for "nothing to do" and sleeps
/// on runnable tasks until something else wakes it. A timer bounds that sleep; it costs a busy executor nothing
/// and an idle one a few microseconds each time.
const HEARTBEAT: Duration = Duration::from_millis(20);
/// glommio's own minimum for locked memory.
const MEMLOCK_MIN_KIB: u64 = 512;

/// Why executors cannot run here, with what to change.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The limit on locked memory is too low.
    #[error(
        "the limit on locked memory is {limit_kib} KiB; raise it to at least {MEMLOCK_MIN_KIB} KiB \
         (`ulimit -l 8192`, systemd `LimitMEMLOCK=8M`, docker `--ulimit memlock=8388608`)"
    )]
    Memlock {
        /// The limit in force, in KiB.
        limit_kib: u64,
    },
    /// The kernel or the container forbids io_uring.
    #[error(
        "io_uring is not available ({0}); it needs Linux 5.8, the sysctl kernel.io_uring_disabled=0, and a seccomp \
         profile that allows io_uring (docker `--security-opt seccomp=unconfined` or a profile of your own)"
    )]
    IoUring(io::Error),
    /// The executor's thread panicked.
    #[error("the executor `{0}` panicked")]
    Panicked(String),
    /// Anything else.
    #[error("the executor `{name}` did not start: {reason}")]
    Other {
        /// The executor's name.
        name: String,
        /// What the runtime said.
        reason: String,
    },
}

/// A running executor.
#[derive(Debug)]
pub struct ExecutorThread<T: Send + 'static> {
    name: String,
    handle: glommio::ExecutorJoinHandle<T>,
}

impl<T: Send + 'static> ExecutorThread<T> {
    /// Waits, blocking, until the executor's future has ended.
    ///
    /// # Errors
    /// [`BootError`] when the executor could not start or its future panicked.
    pub fn join(self) -> Result<T, BootError> {
        self.handle.join().map_err(|error| explain(&self.name, error))
    }
}

/// Tries whether `executors` of them can run here at once. Call it before anything else is started.
///
/// # Errors
/// [`BootError`] says in one line what to change.
pub fn probe(executors: usize) -> Result<(), BootError> {
    let started: Vec<_> =
        (0..executors.max(1)).map(|_| spawn("probe", Placement::Unbound, || async {})).collect::<Result<_, _>>()?;
    started.into_iter().try_for_each(ExecutorThread::join)
}

/// The processors this process may run on, in order; at least one.
#[must_use]
pub fn processors() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let listed = allowed.map(parse_list).unwrap_or_default();
    if listed.is_empty() { vec![0] } else { listed }
}

/// Starts an executor on a thread of its own, pinned to processor `cpu`, and runs what `make` makes there.
///
/// # Errors
/// [`BootError`] when the thread cannot be started; later failures come from [`ExecutorThread::join`].
pub fn spawn_pinned<G, F, T>(name: &str, cpu: usize, make: G) -> Result<ExecutorThread<T>, BootError>
where
    G: FnOnce() -> F + Send + 'static,
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    spawn(name, Placement::Fixed(cpu), make)
}

/// Runs `future` on an executor made on this thread, unpinned, until it ends: for commands and tests.
///
/// # Errors
/// [`BootError`] when the executor cannot be made.
pub fn run_here<T>(future: impl Future<Output = T>) -> Result<T, BootError> {
    let executor = builder("here", Placement::Unbound).make().map_err(|error| explain("here", error))?;
    Ok(executor.run(with_heartbeat(future)))
}

fn spawn<G, F, T>(name: &str, placement: Placement, make: G) -> Result<ExecutorThread<T>, BootError>
where
    G: FnOnce() -> F + Send + 'static,
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let handle = builder(name, placement).spawn(|| with_heartbeat_of(make)).map_err(|error| explain(name, error))?;
    Ok(ExecutorThread { name: name.to_owned(), handle })
}

async fn with_heartbeat_of<F: Future>(make: impl FnOnce() -> F) -> F::Output {
    with_heartbeat(make()).await
}

async fn with_heartbeat<T>(future: impl Future<Output = T>) -> T {
    task::spawn(async {
        loop {
            timer::sleep(HEARTBEAT).await;
        }
    });
    future.await
}

fn builder(name: &str, placement: Placement) -> LocalExecutorBuilder {
    LocalExecutorBuilder::new(placement)
        .name(name)
        .io_memory(IO_MEMORY_BYTES)
        .ring_depth(RING_DEPTH)
        .preempt_timer(PREEMPT_EVERY)
}

fn explain(name: &str, error: GlommioError<()>) -> BootError {
    use glommio::{BuilderErrorKind, ReactorErrorKind};
    if let GlommioError::ReactorError(ReactorErrorKind::MemLockLimit(limit, _)) = error {
        return BootError::Memlock { limit_kib: limit / 1024 };
    }
    if let GlommioError::BuilderError(BuilderErrorKind::ThreadPanic(_)) = error {
        return BootError::Panicked(name.to_owned());
    }
    if let GlommioError::IoError(source) | GlommioError::EnhancedIoError { source, .. } = error {
        return explain_io(source);
    }
    BootError::Other { name: name.to_owned(), reason: error.to_string() }
}

fn explain_io(error: io::Error) -> BootError {
    if error.kind() == io::ErrorKind::OutOfMemory {
        return BootError::Memlock { limit_kib: locked_memory_limit_kib() };
    }
    BootError::IoUring(error)
}

fn locked_memory_limit_kib() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |bytes| bytes / 1024)
}

/// Parses the kernel's list format, such as `0-3,8`; what is malformed is left out.
fn parse_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Runs `future` on an executor of the test's own thread.
#[cfg(test)]
pub fn run_local<T>(future: impl Future<Output = T>) -> T {
    run_here(future).expect("an executor can be made")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_executors_start_and_return_values() {
        probe(3).unwrap();
        let cpus = processors();
        let threads: Vec<_> =
            (0..3).map(|i| spawn_pinned("test", cpus[i % cpus.len()], move || async move { i }).unwrap()).collect();
        let values: Vec<usize> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(values, [0, 1, 2]);
    }

    #[test]
    fn a_panic_comes_out_of_join() {
        let thread = spawn_pinned("broken", processors()[0], || async { panic!("on purpose") }).unwrap();
        let result: Result<(), _> = thread.join();
        assert!(matches!(result, Err(BootError::Panicked(name)) if name == "broken"));
    }

    #[test]
    fn advice_names_the_limit_and_the_remedy() {
        let error = GlommioError::ReactorError(glommio::ReactorErrorKind::MemLockLimit(65_536, 524_288));
        let text = explain("x", error).to_string();
        assert!(text.starts_with("the limit on locked memory is 64 KiB; raise it to at least 512 KiB"), "{text}");
        assert!(!text.contains('\n'));
        let denied = explain("x", io::Error::from_raw_os_error(1).into()).to_string();
        assert!(denied.starts_with("io_uring is not available"), "{denied}");
    }

    #[test]
    fn processor_lists_are_parsed() {
        assert_eq!(parse_list("\t0-2,8"), [0, 1, 2, 8]);
        assert_eq!(parse_list("x,3"), [3]);
        assert!(!processors().is_empty());
    }

    #[test]
    fn an_idle_executor_uses_no_processor_time() {
        let spent = run_local(async {
            let before = thread_ticks();
            crate::runtime::sleep(Duration::from_millis(300)).await;
            thread_ticks() - before
        });
        assert!(spent <= 5, "{spent} ticks of 10 ms in 300 ms of sleep");
    }

    /// User and system time of this thread in clock ticks (proc(5), `stat` fields 14 and 15).
    fn thread_ticks() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}
