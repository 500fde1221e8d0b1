//! What one shard has for others: sent in order, and kept here while there is no room.

use std::collections::VecDeque;

use super::handle::Message;
use super::inlet::Inlet;
use crate::engine::Arrival;
use crate::runtime::channel::{Sender, TrySendError};
use crate::types::ShardId;

/// Where a shard's messages to others go.
pub enum Outbox {
    /// To the inboxes of this process's shards.
    Inboxes(Inboxes),
    /// Events to the slots of a cluster; what is settled is this shard's own matter.
    Slots(Slots),
}

/// Messages to the shards of this process, in order for each.
#[derive(Debug)]
pub struct Inboxes {
    inboxes: Vec<Sender<Message>>,
    waiting: Vec<VecDeque<Message>>,
}

/// Events on their way into the slots of a cluster, in order.
pub struct Slots {
    inlet: Inlet,
    /// The shard's own inbox, which is told what is durable.
    inbox: Sender<Message>,
    waiting: VecDeque<Arrival>,
}

impl Outbox {
    /// An outbox to these inboxes, by shard.
    #[must_use]
    pub fn to_shards(inboxes: Vec<Sender<Message>>) -> Self {
        let waiting = inboxes.iter().map(|_| VecDeque::new()).collect();
        Self::Inboxes(Inboxes { inboxes, waiting })
    }

    /// An outbox into the slots, for a shard with this inbox.
    #[must_use]
    pub fn to_slots(inlet: Inlet, inbox: Sender<Message>) -> Self {
        Self::Slots(Slots { inlet, inbox, waiting: VecDeque::new() })
    }

    /// Hands an event over, or keeps it behind those that wait already.
    pub fn hand_over(&mut self, shard: ShardId, arrival: Arrival) {
        match self {
            Self::Inboxes(inboxes) => inboxes.send(shard, Message::Handover(arrival)),
            Self::Slots(slots) => {
                slots.waiting.push_back(arrival);
                slots.flush();
            }
        }
    }

    /// Tells a shard that a record of its lane is settled.
    pub fn settled(&mut self, shard: ShardId, message: Message) {
        match self {
            Self::Inboxes(inboxes) => inboxes.send(shard, message),
            // Unbounded by itself: each message is about one record that its lane keeps open.
            Self::Slots(slots) => drop(slots.inbox.try_send(message)),
        }
    }

    /// Whether more may come in.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Inboxes(_) => true,
            Self::Slots(slots) => slots.inlet.closed().is_none(),
        }
    }

    /// Tries again to send what waits. Says whether nothing is left: until then the shard reads no lane, so
    /// that what waits here stays bounded by one turn.
    pub fn flush(&mut self) -> bool {
        match self {
            Self::Inboxes(inboxes) => inboxes.flush(),
            Self::Slots(slots) => slots.flush(),
        }
    }
}

impl Inboxes {
    fn send(&mut self, shard: ShardId, message: Message) {
        self.waiting[usize::from(shard.0)].push_back(message);
        self.flush_one(usize::from(shard.0));
    }

    fn flush(&mut self) -> bool {
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

impl Slots {
    fn flush(&mut self) -> bool {
        while let Some(arrival) = self.waiting.pop_front() {
            if let Err(arrival) = self.inlet.relay(arrival, &self.inbox) {
                self.waiting.push_front(arrival);
                return false;
            }
        }
        true
    }
}
