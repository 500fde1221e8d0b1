//! The runtime: glommio executors, one pinned thread each, and what hyper needs to run on them.
//!
//! The only folder that names glommio; the rest of the shell uses these names, so that the runtime can be
//! changed here. No decisions, no knowledge of events.
//!
//! Rules of this runtime:
//! - A future that uses [`net`], [`timer`] or [`task`] must be polled on an executor started by [`boot`].
//! - Blocking work does not belong here: it runs on threads of its own and answers over a [`channel`].
//! - An executor that has nothing to do sleeps in the kernel; a wake-up from any thread rouses it.
//! - A descriptor is closed only when its executor next comes around to it, so no executor may block.

pub mod boot;
pub mod channel;
pub mod clock;
pub mod course;
pub mod executor;
pub mod io;
pub mod net;
pub mod task;
pub mod timer;

pub use boot::{BootError, ExecutorThread};
pub use clock::Clock;
pub use executor::LocalExecutor;
pub use io::HyperIo;
pub use net::{Listener, TcpStream};
pub use timer::{HyperTimer, sleep, timeout};
