//! The one way into a slot of a cluster: what a node takes in, and what its API is told to do, becomes records of the
//! hub's own topic, which the slot's owner reads in order.

use uuid::Uuid;

use crate::engine::{Arrival, Command, CommandResult, SettledItem, Ticket};
use crate::runtime::channel::{Sender, reply};
use crate::runtime::{sleep, timeout};
use crate::source::kafka::{Full, Receipt, SlotLag, SlotWriter, Unwritable};
use crate::store::Scylla;
use crate::store::codec::slot_record;
use crate::store::scylla::token;
use crate::types::{Event, Sequence, Slot, TenantId, limits};

use super::handle::Message;

/// The hub's own topic, for writing. Cheap to clone.
#[derive(Clone)]
pub struct Inlet {
    writer: SlotWriter,
    /// Where a command's result comes.
    store: Scylla,
    lag: SlotLag,
    lag_max: u64,
    slots: u16,
}

impl Inlet {
    /// The topic behind `writer`, whose slots' owners share `store`. Nothing comes in while they are more than `lag_max`
    /// records behind.
    #[must_use]
    pub fn new(writer: SlotWriter, store: Scylla, (lag, lag_max): (SlotLag, u64)) -> Self {
        let slots = store.deployment().slots;
        Self { writer, store, lag, lag_max, slots }
    }

    /// Writes a request's events, all of one tenant. What is answered as overloaded may be stored nevertheless: sent
    /// again it is found by its id.
    pub async fn arrive(&self, tenant: &TenantId, events: Vec<Event>) -> Vec<SettledItem> {
        let mut waiting = Vec::with_capacity(events.len());
        for event in &events {
            let (told, settled) = reply();
            let receipt: Receipt = Box::new(move |written| {
                // Whoever waited may have given up.
                let _ = told.try_send(settled_item(written));
            });
            let sent = self.closed().is_none() && self.write_event(tenant, event, receipt).is_ok();
            waiting.push(sent.then_some(settled));
        }
        let mut items = Vec::with_capacity(waiting.len());
        for settled in waiting {
            let told = match settled {
                Some(settled) => timeout(limits::SLOT_WRITER_PATIENCE.to_std(), settled.recv_async()).await,
                None => None,
            };
            items.push(told.and_then(Result::ok).unwrap_or(SettledItem::Overloaded));
        }
        items
    }

    /// Lets the owner of the tenant's slot execute a command, and waits for what became of it. One that is answered as
    /// busy may be executed nevertheless.
    pub async fn command(&self, tenant: &TenantId, command: &Command) -> CommandResult {
        let id = token();
        if !self.write_command(tenant, id, command).await {
            return CommandResult::Busy;
        }
        let mut pause = limits::COMMAND_LOOK_MIN;
        for _ in 0..limits::COMMAND_LOOKS {
            sleep(pause.to_std()).await;
            if let Ok(Some(result)) = self.store.command_result(id).await {
                return result;
            }
            pause = pause.times(2).min(limits::COMMAND_LOOK_MAX);
        }
        CommandResult::Busy
    }

    /// Writes a command; whether it is durable.
    async fn write_command(&self, tenant: &TenantId, id: Uuid, command: &Command) -> bool {
        let mut value = Vec::new();
        slot_record::encode_command(id, command, &mut value);
        let (told, written) = reply();
        let receipt: Receipt = Box::new(move |outcome| {
            // Whoever waited may have given up.
            let _ = told.try_send(outcome.is_ok());
        });
        let slot = Slot::of(tenant, self.slots);
        if self.is_silent() || self.writer.send(slot, tenant.as_str(), &value, receipt).is_err() {
            return false;
        }
        let told = timeout(limits::SLOT_WRITER_PATIENCE.to_std(), written.recv_async()).await;
        told.and_then(Result::ok).unwrap_or(false)
    }

    /// Writes a lane's event; `inbox` is told that it is settled once it is durable.
    ///
    /// # Errors
    /// The arrival, when there is no room now.
    pub(super) fn relay(&self, arrival: Arrival, inbox: &Sender<Message>) -> Result<(), Arrival> {
        let Some(event) = arrival.events.first() else { return Ok(()) };
        let (ticket, inbox) = (arrival.ticket, inbox.clone());
        let receipt: Receipt = Box::new(move |written| settle(written, ticket, &inbox));
        self.write_event(&event.tenant, event, receipt).map_err(|Full(_)| arrival)
    }

    /// Why nothing can come in now; `None` when it can.
    #[must_use]
    pub fn closed(&self) -> Option<&'static str> {
        if self.is_silent() {
            return Some("the slot topic acknowledges nothing: kafka.brokers");
        }
        let is_behind = self.lag.records() > self.lag_max;
        is_behind.then_some("the slots' owners are behind by more than kafka.slot_lag_max")
    }

    /// Whether the brokers acknowledge nothing though records wait.
    fn is_silent(&self) -> bool {
        self.writer.silent_for() > limits::SLOT_WRITER_SILENCE
    }

    fn write_event(&self, tenant: &TenantId, event: &Event, receipt: Receipt) -> Result<(), Full> {
        let mut value = Vec::with_capacity(event.payload.len() + 512);
        slot_record::encode_event(event, &mut value);
        self.writer.send(Slot::of(tenant, self.slots), tenant.as_str(), &value, receipt)
    }
}

fn settled_item(written: Result<u64, Unwritable>) -> SettledItem {
    match written {
        Ok(offset) => SettledItem::Stored(Sequence(offset + 1)),
        Err(error) => {
            tracing::warn!(%error, "an event can't be written");
            SettledItem::Unstorable
        }
    }
}

fn settle(written: Result<u64, Unwritable>, ticket: Ticket, inbox: &Sender<Message>) {
    match written {
        // Unbounded by itself: each message is about one record that its lane keeps open. Without a receiver the
        // process ends.
        Ok(_) => drop(inbox.send(Message::Settled(ticket))),
        Err(error) => tracing::error!(%error, ?ticket, "a record can't be written: its lane stands still"),
    }
}
