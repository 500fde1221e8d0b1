//! What one shard has for others: sent in order, and kept here while an inbox is full.

use std::collections::VecDeque;

use super::handle::Message;
use crate::runtime::channel::{Sender, TrySendError};
use crate::types::ShardId;

/// Messages to the other shards, in order for each.
#[derive(Debug)]
pub struct Outbox {
    inboxes: Vec<Sender<Message>>,
    waiting: Vec<VecDeque<Message>>,
}

impl Outbox {
    /// An outbox to these inboxes, by shard.
    #[must_use]
    pub fn new(inboxes: Vec<Sender<Message>>) -> Self {
        let waiting = inboxes.iter().map(|_| VecDeque::new()).collect();
        Self { inboxes, waiting }
    }

    /// Sends a message, or keeps it behind those that wait already.
    pub fn send(&mut self, shard: ShardId, message: Message) {
        self.waiting[usize::from(shard.0)].push_back(message);
        self.flush_one(usize::from(shard.0));
    }

    /// Tries again to send what waits. Says whether nothing is left: until then the shard reads no lane, so
    /// that what waits here stays bounded by one turn.
    pub fn flush(&mut self) -> bool {
        (0..self.inboxes.len()).for_each(|shard| self.flush_one(shard));
        self.waiting.iter().all(VecDeque::is_empty)
    }

    fn flush_one(&mut self, shard: usize) {
        while let Some(message) = self.waiting[shard].pop_front() {
            match self.inboxes[shard].try_send(message) {
                Ok(()) => {}
                Err(TrySendError::Full(message)) => {
                    self.waiting[shard].push_front(message);
                    return;
                }
                // The other shard has ended, and so will the process: what it did not acknowledge comes again.
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
    }
}
