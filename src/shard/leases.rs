//! Slots on a lease, as the shell sees them: each loss ends the engine's life, and another begins.
//!
//! The consumer takes all lanes of a shard back at once. The engine is drained, the readers are dropped, and each lane is
//! acknowledged once its attempts have ended or their time is up; what is under way then runs on, is written when it ends,
//! and counts for whoever owns the slot by then as a claim of a former owner.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::book::Book;
use super::life::Life;
use crate::engine::{LaneNumber, Shard};
use crate::runtime::channel::Sender;
use crate::source::kafka::LaneWatermark;
use crate::store::Port;
use crate::types::counters::Counters;
use crate::types::{Slot, TenantId, Time, limits};

/// Makes an engine without slots, and its way into the store.
pub type MakeEngine = Box<dyn Fn(Time) -> (Shard, Port)>;

/// What a shard on leases knows beside its engine.
pub(super) struct Leases {
    make: MakeEngine,
    pub(super) book: Book,
    /// The slots that its engine was given.
    pub(super) held: BTreeSet<Slot>,
    /// Until then they are nobody else's.
    pub(super) until: Time,
    leaving: Vec<Rc<RefCell<Leaving>>>,
    /// What lives that have ended had counted.
    past: Counters,
}

/// Lanes on their way back to the group.
struct Leaving {
    lanes: BTreeMap<LaneNumber, LaneWatermark>,
    /// Who waits for which.
    waiting: Vec<(LaneNumber, Sender<LaneNumber>)>,
    /// When they are given back whatever is under way.
    deadline: Time,
    given_back: bool,
    /// The shutdown's grace is over.
    cut: bool,
    /// Nothing of the former engine is left.
    ended: bool,
    /// What it had counted when last looked at.
    counters: Counters,
}

impl Leases {
    /// No slots yet.
    pub(super) fn new(make: MakeEngine, book: Book) -> Self {
        Self { make, book, held: BTreeSet::new(), until: Time::ZERO, leaving: Vec::new(), past: Counters::default() }
    }

    /// An engine for another life.
    pub(super) fn engine(&self, now: Time) -> (Shard, Port) {
        (self.make)(now)
    }

    /// Whether the engine was given the slot of `tenant`.
    pub(super) fn holds(&self, tenant: &TenantId) -> bool {
        self.held.contains(&self.book.slot_of(tenant))
    }

    /// Sees a drained life out, whose lanes these were.
    pub(super) fn leave(&mut self, life: Life, lanes: BTreeMap<LaneNumber, LaneWatermark>, now: Time) {
        self.held.clear();
        let deadline = now + limits::SLOT_RELEASE_PATIENCE;
        let leaving = Rc::new(RefCell::new(Leaving {
            lanes,
            waiting: Vec::new(),
            deadline,
            given_back: false,
            cut: false,
            ended: false,
            counters: life.engine.report().counters,
        }));
        for ended in self.leaving.extract_if(.., |leaving| leaving.borrow().ended) {
            self.past.merge(&ended.borrow().counters);
        }
        self.leaving.push(Rc::clone(&leaving));
        crate::runtime::task::spawn(async move {
            let looking = Rc::clone(&leaving);
            life.see_out(move |life, now| looking.borrow_mut().look(life, now)).await;
            leaving.borrow_mut().ended = true;
        });
    }

    /// The group wants a lane back: it is acknowledged when it may be given to others.
    pub(super) fn give_back(&self, lane: LaneNumber, acknowledge: Sender<LaneNumber>) {
        let leaving = self.leaving.iter().map(|leaving| leaving.borrow_mut());
        match leaving.into_iter().find(|leaving| leaving.lanes.contains_key(&lane) && !leaving.given_back) {
            Some(mut leaving) => leaving.waiting.push((lane, acknowledge)),
            None => {
                // Never full, as the consumer promises; without it nobody waits any more.
                let _ = acknowledge.try_send(lane);
            }
        }
    }

    /// Adds what former lives have counted.
    pub(super) fn count(&self, counters: &mut Counters) {
        counters.merge(&self.past);
        self.leaving.iter().for_each(|leaving| counters.merge(&leaving.borrow().counters));
    }

    /// Cuts what former lives have under way.
    pub(super) fn cut(&self) {
        self.leaving.iter().for_each(|leaving| leaving.borrow_mut().cut = true);
    }

    /// Whether no former life is left.
    pub(super) fn all_have_ended(&self) -> bool {
        self.leaving.iter().all(|leaving| leaving.borrow().ended)
    }
}

impl Leaving {
    fn look(&mut self, life: &mut Life, now: Time) {
        self.counters = life.engine.report().counters;
        if std::mem::take(&mut self.cut) {
            life.interrupt();
        }
        if self.given_back || !(life.engine.is_idle() || now >= self.deadline) {
            return;
        }
        self.given_back = true;
        for (lane, watermark) in &self.lanes {
            if let Some(position) = life.engine.lane_position(*lane) {
                watermark.advance(position);
            }
        }
        for (lane, acknowledge) in self.waiting.drain(..) {
            let _ = acknowledge.try_send(lane);
        }
    }
}
