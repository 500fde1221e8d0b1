//! What runs on one shard's thread: the loop of a hub that has all slots, or the two of a cluster's node.

use super::BootSettings;
use super::book::Book;
use super::handle::{Disabled, Message};
use super::inlet::Inlet;
use super::lanes::{LaneReaders, Records};
use super::leases::{Leases, MakeEngine};
use super::life::Life;
use super::outbox::Outbox;
use super::pump::{Pump, Wiring};
use super::slot_reader::SlotReader;
use super::watch::Pulse;
use crate::deliver::Client;
use crate::engine::{Bounds, Input, Shard, ShardSettings, Tenure};
use crate::runtime::channel::{Receiver, Sender};
use crate::source::kafka::KafkaEvent;
use crate::store::{Port, Store};
use crate::types::{ConfigChange, ShardId, Time, limits};

/// What the loops of one shard are made of.
pub(super) struct Seat {
    pub(super) shard: ShardId,
    pub(super) settings: BootSettings,
    pub(super) store: Store,
    /// All stored configuration of its tenants.
    pub(super) changes: Vec<ConfigChange>,
    /// What it is told, and the lanes it is given.
    pub(super) own: (Receiver<Message>, Receiver<KafkaEvent>),
    /// The inboxes of all shards.
    pub(super) inboxes: Vec<Sender<Message>>,
    /// The inbox of the loop that relays producers' events into the slots of a cluster, and the lanes that is given.
    pub(super) relay: (Sender<Message>, Receiver<Message>, Receiver<KafkaEvent>),
    pub(super) disabled: Sender<Disabled>,
    pub(super) pulse: Pulse,
}

impl Seat {
    /// The loop of a shard that keeps its slots. To be made on its own thread, as the others.
    pub(super) fn alone(self) -> Pump {
        let now = self.settings.clock.now();
        let (mut engine, port) = engine(self.shard, &self.settings, &self.store, Tenure::Sole, now);
        for change in &self.changes {
            engine.handle(Input::Config(change.clone()), now);
        }
        let outbox = Outbox::to_shards(self.inboxes.clone());
        let lanes = LaneReaders::new(Records::Producers(self.settings.rules.clone()));
        let life = self.life(engine, port);
        Pump::new(life, lanes, self.wiring(self.own.clone(), outbox))
    }

    /// The loop of the slots that a node is given.
    pub(super) fn on_lease(&self, inlet: &Inlet) -> Pump {
        let make = self.maker();
        let (engine, port) = make(self.settings.clock.now());
        let book = Book::new(self.store.deployment().slots, self.changes.iter().cloned());
        let outbox = Outbox::to_slots(inlet.clone(), self.relay.0.clone());
        let lanes = LaneReaders::new(Records::Slots(SlotReader::default()));
        let wiring = self.wiring(self.own.clone(), outbox);
        Pump::new(self.life(engine, port), lanes, wiring).on_lease(Leases::new(make, book))
    }

    /// The loop that relays what producers wrote into the slots.
    pub(super) fn relay(&self, inlet: Inlet) -> Pump {
        let (engine, port) = self.maker()(self.settings.clock.now());
        let (sender, inbox, kafka) = self.relay.clone();
        let lanes = LaneReaders::new(Records::Producers(self.settings.rules.clone()));
        let wiring = self.wiring((inbox, kafka), Outbox::to_slots(inlet, sender));
        Pump::new(self.life(engine, port), lanes, wiring)
    }

    fn maker(&self) -> MakeEngine {
        let (shard, settings, store) = (self.shard, self.settings.clone(), self.store.clone());
        let tenure = Tenure::Leased { sync_grace: limits::SYNC_GRACE };
        Box::new(move |now| engine(shard, &settings, &store, tenure, now))
    }

    fn life(&self, engine: Shard, port: Port) -> Life {
        Life::new(engine, port, Client::new(self.settings.client.clone()), self.settings.clock)
    }

    fn wiring(&self, (inbox, kafka): (Receiver<Message>, Receiver<KafkaEvent>), outbox: Outbox) -> Wiring {
        Wiring {
            clock: self.settings.clock,
            store: self.store.clone(),
            inbox,
            outbox,
            kafka,
            disabled: self.disabled.clone(),
            pulse: self.pulse.clone(),
        }
    }
}

fn engine(shard: ShardId, settings: &BootSettings, store: &Store, tenure: Tenure, now: Time) -> (Shard, Port) {
    let record = store.deployment();
    let engine_settings = ShardSettings {
        shard,
        shards: settings.shards,
        slots: record.slots,
        dedup_salt: record.dedup_salt,
        seed: settings.seed ^ (u64::from(shard.0) << 48) ^ now.0,
        attempts_max: settings.attempts_max,
        auto_disable: settings.auto_disable,
        payload_retention: settings.payload_retention,
        poison_threshold: settings.poison_threshold,
        tenure,
        bounds: Bounds::default(),
    };
    (Shard::new(engine_settings, now), store.port(shard))
}
