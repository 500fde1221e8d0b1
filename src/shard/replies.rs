//! Who waits for what: answers owed to requests and commands, by the number the engine knows them by.

use std::collections::HashMap;

use ahash::RandomState;

use crate::runtime::channel::Sender;

/// Senders of answers that are still owed.
#[derive(Debug)]
pub struct Replies<T> {
    next: u64,
    owed: HashMap<u64, Sender<T>, RandomState>,
}

impl<T> Default for Replies<T> {
    fn default() -> Self {
        Self { next: 0, owed: HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4)) }
    }
}

impl<T> Replies<T> {
    /// Notes who waits, and returns the number to ask under.
    pub fn owe(&mut self, sender: Sender<T>) -> u64 {
        self.next += 1;
        self.owed.insert(self.next, sender);
        self.next
    }

    /// Answers; whoever has stopped waiting is not missed.
    pub fn answer(&mut self, number: u64, value: T) {
        if let Some(sender) = self.owed.remove(&number) {
            let _ = sender.try_send(value);
        }
    }
}
