//! Subscriptions that the engine disabled, on their way to who writes that down: kept until they are accepted.
//!
//! They are few: each subscription is disabled once until somebody enables it again.

use std::collections::VecDeque;

use super::handle::Disabled;
use crate::runtime::channel::{Sender, TrySendError};

/// What has not been accepted yet, in order.
#[derive(Debug)]
pub struct DisabledOutbox {
    writer: Sender<Disabled>,
    waiting: VecDeque<Disabled>,
}

impl DisabledOutbox {
    /// For this writer.
    #[must_use]
    pub const fn new(writer: Sender<Disabled>) -> Self {
        Self { writer, waiting: VecDeque::new() }
    }

    /// Sends, or keeps behind what waits already.
    pub fn send(&mut self, disabled: Disabled) {
        self.waiting.push_back(disabled);
        self.flush();
    }

    /// Tries again; says whether nothing is left to be sent.
    pub fn flush(&mut self) -> bool {
        while let Some(disabled) = self.waiting.pop_front() {
            match self.writer.try_send(disabled) {
                Ok(()) => {}
                Err(TrySendError::Full(disabled)) => {
                    self.waiting.push_front(disabled);
                    return false;
                }
                // The writer has ended, and so will the process: after a restart the next failure disables them.
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::runtime::channel::bounded;
    use crate::types::subscription::DisabledReason;
    use crate::types::{SubscriptionId, TenantId};

    fn disabled(number: u128) -> Disabled {
        let tenant = TenantId::new("acme").expect("a tenant");
        Disabled { tenant, subscriptions: vec![SubscriptionId(Uuid::from_u128(number))], reason: DisabledReason::Gone }
    }

    #[test]
    fn a_slow_writer_gets_all_of_them_in_order() {
        let (sender, receiver) = bounded(2);
        let mut outbox = DisabledOutbox::new(sender);
        (1..=7).for_each(|number| outbox.send(disabled(number)));
        let mut written = Vec::new();
        loop {
            let done = outbox.flush();
            written.extend(receiver.try_iter());
            if done {
                break;
            }
        }
        assert_eq!(written, (1..=7).map(disabled).collect::<Vec<_>>());
    }

    #[test]
    fn a_writer_that_has_ended_holds_nobody_up() {
        let (sender, receiver) = bounded(1);
        let mut outbox = DisabledOutbox::new(sender);
        outbox.send(disabled(1));
        outbox.send(disabled(2));
        drop(receiver);
        assert!(outbox.flush());
    }
}
