//! One engine's way into the store: its batches, its reads, and the slots it has taken.
//!
//! A slot is taken for one engine. Another one of the same process that takes it later has an epoch of its own, and
//! what the former one still writes bears the former epoch, as if it came from another node.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::handle::{Scylla, Turn};
use super::phase::Phase;
use super::plan::{Learned, SlotPlanner, plan_lanes};
use super::read::{self, Ahead};
use super::session::{Failure, Session};
use super::take::{TakeError, Taken, take, token};
use crate::engine::{Batch, BatchNumber, Read, ReadAnswer, ReadId, Refusal, Unit};
use crate::store::StoreEvent;
use crate::types::{Sequence, Slot};

/// An engine's way in. Batches of one unit become durable in the order submitted.
pub struct ScyllaPort {
    store: Scylla,
    /// Unbounded by itself: each message answers one batch or read that the engine keeps account of.
    events: (flume::Sender<StoreEvent>, flume::Receiver<StoreEvent>),
    owned: Arc<Mutex<BTreeMap<Slot, Arc<Owned>>>>,
    /// Its lanes' batches, one at a time.
    lanes: Turn,
}

/// A slot that this port took.
struct Owned {
    planner: Mutex<SlotPlanner>,
    turn: Turn,
}

/// A batch ready to be carried out.
struct Planned {
    phases: Vec<Phase>,
    learned: Learned,
    owned: Option<Arc<Owned>>,
    turn: Turn,
}

impl ScyllaPort {
    pub(super) fn new(store: Scylla) -> Self {
        Self { store, events: flume::unbounded(), owned: Arc::default(), lanes: Turn::default() }
    }

    /// Where it is told what became of batches and reads.
    #[must_use]
    pub const fn events(&self) -> &flume::Receiver<StoreEvent> {
        &self.events.1
    }

    /// Begins to make batches durable, each by itself. Never waits. A slot's batch is refused until the slot was taken.
    pub fn submit(&self, batches: &[Batch]) {
        for batch in batches {
            let name = (batch.unit, batch.number);
            let started = match self.plan(batch) {
                Ok(planned) => self.store.start(carry_out(planned, name, self.events.0.clone())),
                Err(reason) => {
                    tracing::error!(unit = ?batch.unit, %reason, "a batch can't be written");
                    false
                }
            };
            if !started {
                // The port itself holds the receiver: no answer is lost.
                let _ = self.events.0.try_send(StoreEvent::Refused(vec![name], Refusal::Unavailable));
            }
        }
    }

    /// Begins to answer `read`. Never waits; when too much is on its way it answers [`ReadAnswer::Failed`]. The first
    /// [`Read::Slot`] of a slot takes it.
    pub fn read(&self, id: ReadId, read: Read) {
        let slot = read::slot_of(&read);
        let owned = self.owned().get(&slot).cloned();
        let ahead = ahead_of(owned.as_deref(), &read);
        let taker = (owned.is_none() && matches!(read, Read::Slot(_))).then(|| self.taker(slot));
        let answers = self.events.0.clone();
        let started = self.store.start(move |session| async move {
            let taken = match taker {
                Some(taker) => taker.take(&session).await.map(drop),
                None => Ok(()),
            };
            let answer = match taken {
                Ok(()) => read::answer(&session, &read, ahead).await,
                Err(error) => {
                    tracing::warn!(slot = slot.0, %error, "a slot was not taken; it is tried again");
                    ReadAnswer::Failed
                }
            };
            if let (Some(owned), ReadAnswer::Log { events, .. }) = (owned, &answer) {
                let mut planner = owned.planner();
                events.iter().for_each(|logged| planner.met(logged));
            }
            let _ = answers.try_send(StoreEvent::Loaded(id, Box::new(answer)));
        });
        if !started {
            let _ = self.events.0.try_send(StoreEvent::Loaded(id, Box::new(ReadAnswer::Failed)));
        }
    }

    /// Takes `slot`: from now on its batches are this port's, with the epoch that is answered. What a former owner still
    /// writes hides nothing of it.
    ///
    /// # Errors
    /// [`TakeError`]; the slot is then as it was, or had one owner more that writes nothing.
    pub async fn take(&self, slot: Slot) -> Result<Taken, TakeError> {
        let (sender, answer) = flume::bounded(1);
        let taker = self.taker(slot);
        let started = self.store.start(move |session| async move {
            // Whoever asked may have given up.
            let _ = sender.send(taker.take(&session).await);
        });
        if !started {
            return Err(TakeError::Request(Failure::Unavailable("too much is on its way".to_owned())));
        }
        answer.recv_async().await.map_err(|_| TakeError::Stopped)?
    }

    fn taker(&self, slot: Slot) -> Taker {
        let (turn, owner) = (self.store.0.turn(slot), self.store.0.owner.clone());
        Taker { slot, owner, turn, owned: Arc::clone(&self.owned) }
    }

    fn plan(&self, batch: &Batch) -> Result<Planned, String> {
        let (inner, now) = (&self.store.0, self.store.0.clock.now());
        match batch.unit {
            Unit::Lanes => {
                let plan = plan_lanes(&batch.rows, &inner.kept, now);
                let turn = Arc::clone(&self.lanes);
                Ok(Planned { phases: plan.phases, learned: plan.learned, owned: None, turn })
            }
            Unit::Slot(slot) => {
                let owned = self.owned().get(&slot).cloned().ok_or("the slot was not taken")?;
                let plan = owned.planner().plan(&batch.rows, &inner.kept, now).map_err(|error| error.to_string())?;
                let turn = Arc::clone(&owned.turn);
                Ok(Planned { phases: plan.phases, learned: plan.learned, owned: Some(owned), turn })
            }
        }
    }

    fn owned(&self) -> MutexGuard<'_, BTreeMap<Slot, Arc<Owned>>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What it takes to take a slot on the driver's thread.
struct Taker {
    slot: Slot,
    owner: String,
    turn: Turn,
    owned: Arc<Mutex<BTreeMap<Slot, Arc<Owned>>>>,
}

impl Taker {
    async fn take(self, session: &Session) -> Result<Taken, TakeError> {
        let taken = take(session, self.slot, &self.owner, token()).await?;
        let planner = Mutex::new(SlotPlanner::new(self.slot, taken.epoch, taken.record));
        let owned = Arc::new(Owned { planner, turn: self.turn });
        self.owned.lock().unwrap_or_else(PoisonError::into_inner).insert(self.slot, owned);
        Ok(taken)
    }
}

impl Owned {
    fn planner(&self) -> MutexGuard<'_, SlotPlanner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out a batch when it is its turn, and says what became of it.
fn carry_out(
    planned: Planned,
    name: (Unit, BatchNumber),
    events: flume::Sender<StoreEvent>,
) -> impl FnOnce(Arc<Session>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send {
    move |session| {
        Box::pin(async move {
            let turn = planned.turn.lock_owned().await;
            let outcome = session.carry_out(planned.phases).await;
            drop(turn);
            let told = match outcome {
                Ok(()) => {
                    if let Some(owned) = planned.owned {
                        owned.planner().acknowledged(&planned.learned);
                    }
                    StoreEvent::Committed(vec![name])
                }
                Err(failure) => {
                    tracing::warn!(unit = ?name.0, error = %failure, "a batch was refused");
                    StoreEvent::Refused(vec![name], failure.refusal())
                }
            };
            let _ = events.try_send(told);
        })
    }
}

/// What the index does not have yet, as far as the read needs it.
fn ahead_of(owned: Option<&Owned>, read: &Read) -> Ahead {
    match (owned, read) {
        (Some(owned), Read::Queue { tenant, from, to, wanted, .. }) => {
            let planner = owned.planner();
            let flushed = planner.flushed();
            Ahead { indexed_below: flushed, pending: planner.pending(tenant, (*from).max(flushed), *to, wanted) }
        }
        (Some(owned), Read::Log { .. }) => Ahead { indexed_below: owned.planner().flushed(), pending: Vec::new() },
        (None, _) | (Some(_), Read::Slot(_) | Read::Due { .. } | Read::Ids { .. } | Read::Event { .. }) => {
            Ahead { indexed_below: Sequence(u64::MAX), pending: Vec::new() }
        }
    }
}
