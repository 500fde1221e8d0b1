//! A gate that holds whoever comes until the test opens it.

use std::sync::{Arc, Condvar, Mutex};

use super::time::DEADLINE;

/// Closed at first; clones are the same gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().expect("no holder panics") = true;
        self.0.1.notify_all();
    }

    pub fn is_open(&self) -> bool {
        *self.0.0.lock().expect("no holder panics")
    }

    /// Returns when it is open, or when the test must have failed.
    pub fn pass(&self) {
        let open = self.0.0.lock().expect("no holder panics");
        drop(self.0.1.wait_timeout_while(open, DEADLINE, |open| !*open));
    }
}
