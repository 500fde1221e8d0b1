//! What the API holds of the shards: cheap to clone, can be sent anywhere, asks over bounded inboxes.

use std::sync::Arc;

use uuid::Uuid;

use super::inlet::Inlet;
use crate::engine::{
    Arrival, CircuitReport, Command, CommandResult, JobQuestion, SettledItem, ShardReport, Standing, Ticket,
};
use crate::runtime::channel::{Receiver, Sender, reply};
use crate::types::subscription::DisabledReason;
use crate::types::{ConfigChange, DestinationId, Event, Sequence, ShardId, Slot, SubscriptionId, TenantId};

/// What a shard is told over its inbox.
#[derive(Debug)]
pub enum Message {
    /// Events of a request.
    Arrive(Vec<Event>, Sender<Vec<SettledItem>>),
    /// A configuration change, durable already.
    Configure(ConfigChange, Sender<()>),
    /// A command.
    Command(Command, Sender<CommandResult>),
    /// Everything about the shard.
    Report(Sender<ShardReport>),
    /// One destination's circuit.
    Circuit(TenantId, DestinationId, Sender<Option<CircuitReport>>),
    /// How jobs that have not ended stand, in the order asked.
    Standings(Vec<JobQuestion>, Sender<Vec<Standing>>),
    /// The number of a tenant's event, if its id is in memory.
    SequenceOf(TenantId, Uuid, Sender<Option<Sequence>>),
    /// An event that another shard's lane read.
    Handover(Arrival),
    /// A record of this shard's lane is settled on another shard.
    Settled(Ticket),
    /// Shutdown begins.
    Drain,
    /// The shutdown's grace is over: attempts under way are cut.
    Interrupt,
}

/// Subscriptions that the hub itself disabled, to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    /// Whose.
    pub tenant: TenantId,
    /// Which.
    pub subscriptions: Vec<SubscriptionId>,
    /// Why.
    pub reason: DisabledReason,
}

/// All shards of the process.
#[derive(Clone)]
pub struct Shards(Arc<Inner>);

struct Inner {
    slots: u16,
    inboxes: Vec<Sender<Message>>,
    /// On a cluster, beside each shard: what it relays from producers' topics into the slots.
    relays: Vec<Sender<Message>>,
    /// On a cluster, the one way into a slot.
    inlet: Option<Inlet>,
    disabled: Receiver<Disabled>,
}

impl Shards {
    /// The shards of a process that has all slots.
    pub(super) fn new(slots: u16, inboxes: Vec<Sender<Message>>, disabled: Receiver<Disabled>) -> Self {
        Self(Arc::new(Inner { slots, inboxes, relays: Vec::new(), inlet: None, disabled }))
    }

    /// The shards of a cluster's node.
    pub(super) fn of_node(
        slots: u16,
        (inboxes, relays): (Vec<Sender<Message>>, Vec<Sender<Message>>),
        inlet: Inlet,
        disabled: Receiver<Disabled>,
    ) -> Self {
        Self(Arc::new(Inner { slots, inboxes, relays, inlet: Some(inlet), disabled }))
    }

    /// The slot of a tenant.
    #[must_use]
    pub fn slot_of(&self, tenant: &TenantId) -> Slot {
        Slot::of(tenant, self.0.slots)
    }

    /// How many shards there are.
    #[must_use]
    pub fn count(&self) -> u16 {
        u16::try_from(self.0.inboxes.len()).expect("shards are counted in u16")
    }

    /// Brings events of one tenant in. The answer comes when they are durable, one item per event in order; all
    /// are [`SettledItem::Overloaded`] when the shard is full or the hub is stopping.
    pub async fn arrive(&self, tenant: &TenantId, events: Vec<Event>) -> Vec<SettledItem> {
        if let Some(inlet) = &self.0.inlet {
            return inlet.arrive(tenant, events).await;
        }
        let count = events.len();
        let (sender, receiver) = reply();
        if self.inbox(tenant).try_send(Message::Arrive(events, sender)).is_err() {
            return vec![SettledItem::Overloaded; count];
        }
        receiver.recv_async().await.unwrap_or_else(|_| vec![SettledItem::Overloaded; count])
    }

    /// Applies a change that is durable already; returns once the owning shard has it in force.
    pub async fn configure(&self, change: ConfigChange) {
        let (sender, receiver) = reply();
        let inbox = self.inbox(change.tenant()).clone();
        if inbox.send_async(Message::Configure(change, sender)).await.is_ok() {
            // Without an answer the process is ending; a restart loads the change from the store.
            let _ = receiver.recv_async().await;
        }
    }

    /// Lets the tenant's shard execute a command.
    pub async fn command(&self, tenant: &TenantId, command: Command) -> CommandResult {
        if let Some(inlet) = &self.0.inlet {
            return inlet.command(tenant, &command).await;
        }
        let (sender, receiver) = reply();
        if self.inbox(tenant).try_send(Message::Command(command, sender)).is_err() {
            return CommandResult::Busy;
        }
        receiver.recv_async().await.unwrap_or(CommandResult::Busy)
    }

    /// One destination's circuit, as its shard sees it.
    pub async fn circuit(&self, tenant: &TenantId, destination: DestinationId) -> Option<CircuitReport> {
        let (sender, receiver) = reply();
        let message = Message::Circuit(tenant.clone(), destination, sender);
        self.inbox(tenant).send_async(message).await.ok()?;
        receiver.recv_async().await.ok().flatten()
    }

    /// How jobs of one tenant that have not ended stand, in the order asked; nothing is known of any of them while
    /// the process is ending.
    pub async fn standings(&self, tenant: &TenantId, jobs: Vec<JobQuestion>) -> Vec<Standing> {
        let unknown = vec![Standing::Unknown; jobs.len()];
        let (sender, receiver) = reply();
        if self.inbox(tenant).send_async(Message::Standings(jobs, sender)).await.is_err() {
            return unknown;
        }
        receiver.recv_async().await.unwrap_or(unknown)
    }

    /// The number of a tenant's event, if its id is in its shard's memory: it is at least until it is written behind.
    pub async fn sequence_of(&self, tenant: &TenantId, id: Uuid) -> Option<Sequence> {
        let (sender, receiver) = reply();
        self.inbox(tenant).send_async(Message::SequenceOf(tenant.clone(), id, sender)).await.ok()?;
        receiver.recv_async().await.ok().flatten()
    }

    /// All shards as they stand, in order.
    pub async fn report(&self) -> Vec<ShardReport> {
        let mut reports = Vec::with_capacity(self.0.inboxes.len());
        for inbox in &self.0.inboxes {
            reports.extend(report_of(inbox).await);
        }
        for (report, relay) in reports.iter_mut().zip(&self.0.relays) {
            if let Some(relayed) = report_of(relay).await {
                report.counters.merge(&relayed.counters);
                report.lanes.extend(relayed.lanes);
            }
        }
        reports
    }

    /// Why nothing can come in now; `None` when it can.
    #[must_use]
    pub fn closed(&self) -> Option<&'static str> {
        self.0.inlet.as_ref().and_then(Inlet::closed)
    }

    /// The next subscriptions that the hub disabled; `None` once all shards have ended.
    pub async fn next_disabled(&self) -> Option<Disabled> {
        self.0.disabled.recv_async().await.ok()
    }

    /// Tells every shard, waiting for room in its inbox: for the thread that shuts the process down.
    pub(super) fn tell_all(&self, message: impl Fn() -> Message) {
        for inbox in self.0.inboxes.iter().chain(&self.0.relays) {
            // A shard that has ended needs no telling.
            let _ = inbox.send(message());
        }
    }

    fn inbox(&self, tenant: &TenantId) -> &Sender<Message> {
        let shards = self.count();
        let ShardId(shard) = self.slot_of(tenant).shard(shards);
        &self.0.inboxes[usize::from(shard)]
    }
}

async fn report_of(inbox: &Sender<Message>) -> Option<ShardReport> {
    let (sender, receiver) = reply();
    inbox.send_async(Message::Report(sender)).await.ok()?;
    receiver.recv_async().await.ok()
}
