//! Admission: an arrival is checked against the ids of its tenant, numbered, matched, and laid into the batch
//! that makes it durable, with its jobs and the claims of those that may start at once.
//!
//! Arrivals of a tenant are admitted in order. One that must wait (a bucket of ids is being read, the batch is
//! full, the slot is loading) holds up its own tenant's later ones and nobody else's.

use std::rc::Rc;

use super::arena::Handle;
use super::dedup::{Look, bucket_minute, dedup_key, tenant_mask};
use super::job::HeldEvent;
use super::matching::Matching;
use super::parked::Parked;
use super::pipeline::Effect;
use super::rows::{NewJob, Row};
use super::shard::Shard;
use super::slot::SlotPhase;
use super::subscriber::Subscriber;
use super::tenant::Tenant;
use super::work::Work;
use super::{Arrival, Settled, SettledItem, Ticket};
use crate::types::{Event, JobKey, Sequence, Slot, TenantId, Time, Trigger};

/// One tenant's part of the arrivals that may wait, as a divisor.
const TENANT_PARKED_DIVISOR: usize = 4;

/// Why an arrival can't be admitted yet.
#[derive(Clone, Copy)]
enum Wait {
    Bucket(u64),
    Room,
    Decision,
}

impl Shard {
    /// Takes an arrival for one of this shard's slots.
    pub(super) fn arrive(&mut self, arrival: Arrival, now: Time) {
        let Some(first) = arrival.events.first() else {
            self.answer(Settled { ticket: arrival.ticket, items: Vec::new() });
            return;
        };
        let from_request = matches!(arrival.ticket, Ticket::Request(_));
        if from_request && (self.draining || self.admission_is_full()) {
            self.refuse(&arrival);
            return;
        }
        if self.draining {
            return;
        }
        let tenant = self.tenant(&first.tenant.clone());
        if from_request && self.has_parked_its_share(tenant) {
            self.refuse(&arrival);
            return;
        }
        let Some(Parked::Arrival(arrival)) = self.stand_in_line(tenant, Parked::Arrival(arrival), now) else { return };
        let mut work = self.tenants[tenant].allowance.take(now);
        if let Err((arrival, wait)) = self.admit(tenant, arrival, &mut work, now) {
            self.park(tenant, Parked::Arrival(arrival));
            self.wait(tenant, wait, now);
        }
        self.tenants[tenant].allowance.put_back(work);
    }

    /// Whether no more arrivals may wait.
    pub(super) fn admission_is_full(&self) -> bool {
        let bounds = &self.settings.bounds;
        self.parked_events >= bounds.admission_events || self.parked_bytes >= bounds.admission_bytes
    }

    /// Whether a tenant's waiting arrivals use up its part of the admission.
    pub(super) fn has_parked_its_share(&self, tenant: Handle<Tenant>) -> bool {
        let bounds = &self.settings.bounds;
        let tenant = &self.tenants[tenant];
        tenant.parked_events >= bounds.admission_events / TENANT_PARKED_DIVISOR
            || tenant.parked_bytes >= bounds.admission_bytes / TENANT_PARKED_DIVISOR
    }

    /// The tenant, known from now on.
    pub(super) fn tenant(&mut self, id: &TenantId) -> Handle<Tenant> {
        if let Some(handle) = self.tenant_of.get(id) {
            return *handle;
        }
        let slot = Slot::of(id, self.settings.slots);
        assert_eq!(slot.shard(self.settings.shards), self.settings.shard, "the shell routes a tenant to its shard");
        let mask = tenant_mask(&self.settings.dedup_salt, id);
        let handle = self.tenants.insert(Tenant::new(id.clone(), slot, mask, self.rng.u64(..)));
        self.tenant_of.insert(id.clone(), handle);
        handle
    }

    /// Tries what is parked in a slot again, tenant by tenant.
    pub(super) fn unpark(&mut self, slot: Slot, now: Time) {
        if self.slot(slot).phase == SlotPhase::Loading || !self.holds_lease(now) {
            return;
        }
        let tenants = std::mem::take(&mut self.slot(slot).parked);
        for tenant in tenants {
            self.admit_parked(tenant, now);
        }
        self.resume_lanes();
    }

    /// Takes in what a tenant has parked, in order, as far as it goes.
    pub(super) fn admit_parked(&mut self, tenant: Handle<Tenant>, now: Time) {
        let Some(state) = self.tenants.get_mut(tenant) else { return };
        let mut work = state.allowance.take(now);
        self.admit_parked_within(tenant, &mut work, now);
        self.tenants[tenant].allowance.put_back(work);
    }

    /// The same, with this much work on filters. Says whether an arrival is left that waits for more of that.
    pub(super) fn admit_parked_within(&mut self, tenant: Handle<Tenant>, work: &mut Work, now: Time) -> bool {
        while let Some(parked) = self.unpark_one(tenant) {
            let tried = match parked {
                Parked::Arrival(arrival) => self.admit(tenant, arrival, work, now),
                Parked::Command(errand) if self.holds_lease(now) => {
                    self.carry_out(errand, now);
                    continue;
                }
                Parked::Command(errand) => {
                    self.park_front(tenant, Parked::Command(errand));
                    self.wait(tenant, Wait::Room, now);
                    return false;
                }
            };
            if let Err((arrival, wait)) = tried {
                self.park_front(tenant, Parked::Arrival(arrival));
                self.wait(tenant, wait, now);
                return matches!(wait, Wait::Decision);
            }
        }
        false
    }

    /// The ids handed to the last batch are written.
    pub(super) fn ids_written(&mut self, unit: super::rows::Unit) {
        if let super::rows::Unit::Slot(slot) = unit {
            self.dedup.written(slot);
            self.slot(slot).ids_on_their_way = false;
        }
    }

    pub(super) fn refuse(&mut self, arrival: &Arrival) {
        self.counters.arrivals_refused += 1;
        let items = vec![SettledItem::Overloaded; arrival.events.len()];
        self.answer(Settled { ticket: arrival.ticket, items });
    }

    fn wait(&mut self, tenant: Handle<Tenant>, wait: Wait, now: Time) {
        let slot = self.tenants[tenant].slot;
        match wait {
            Wait::Room => self.slot(slot).parked.push_back(tenant),
            Wait::Decision => self.wait_for_decision(tenant, now),
            Wait::Bucket(minute) => {
                self.wait_for_bucket(slot, minute, tenant);
            }
        }
    }

    /// Admits an arrival whole, or says what it waits for.
    fn admit(
        &mut self,
        tenant: Handle<Tenant>,
        arrival: Arrival,
        work: &mut Work,
        now: Time,
    ) -> Result<(), (Arrival, Wait)> {
        let (slot, mask) = (self.tenants[tenant].slot, self.tenants[tenant].mask);
        let bounds = self.settings.bounds;
        let full = self.slot(slot).pipeline.is_full(bounds.batch_rows, bounds.batch_bytes);
        if full || !self.holds_lease(now) {
            return Err((arrival, Wait::Room));
        }
        let state = self.slot(slot);
        if let [event] = arrival.events.as_slice()
            && state.lane.is_some()
            && event.sequence <= state.settled_before
        {
            let items = vec![SettledItem::Stored(event.sequence)];
            self.answer(Settled { ticket: arrival.ticket, items });
            return Ok(());
        }
        let mut looks = Vec::with_capacity(arrival.events.len());
        for event in &arrival.events {
            let minute = bucket_minute(event.id);
            match self.dedup.look(slot, minute, dedup_key(mask, event.id)) {
                Look::Unread => return Err((arrival, Wait::Bucket(minute))),
                Look::Duplicate(sequence) if self.comes_anew(slot, event, sequence) => looks.push(Look::Fresh),
                look @ (Look::Fresh | Look::Duplicate(_)) => looks.push(look),
            }
        }
        let Some(mut decisions) = self.decide(tenant, &arrival, &looks, work) else {
            return Err((arrival, Wait::Decision));
        };
        let begin = self.slot(slot).pipeline.gathered();
        let copy = self.counts_on_another(slot, mask, &arrival).then(|| arrival.events.clone());
        let mut items = Vec::with_capacity(arrival.events.len());
        for (index, (event, look)) in arrival.events.into_iter().zip(looks).enumerate() {
            items.push(self.admit_event(tenant, event, (look, decisions.take(index)), now));
        }
        let state = self.slot(slot);
        state.pipeline.close_arrival(begin);
        state.pipeline.follow(Effect::Settle { ticket: arrival.ticket, items, again: copy });
        self.touch(slot);
        Ok(())
    }

    /// Whether an event that is known by its own number has to be taken in all the same: a former owner wrote it after
    /// this one had read the log, and began no attempt of it.
    fn comes_anew(&mut self, slot: Slot, event: &Event, known: Sequence) -> bool {
        let state = self.slot(slot);
        state.lane.is_some() && known == event.sequence && !state.ahead.contains_key(&known)
    }

    /// Whether one of the events is a duplicate of a copy that is not durable yet.
    fn counts_on_another(&mut self, slot: Slot, mask: u128, arrival: &Arrival) -> bool {
        let durable = self.slot(slot).durable;
        arrival.events.iter().any(|event| {
            let look = self.dedup.look(slot, bucket_minute(event.id), dedup_key(mask, event.id));
            matches!(look, Look::Duplicate(sequence) if sequence > durable)
        })
    }

    fn admit_event(
        &mut self,
        tenant: Handle<Tenant>,
        mut event: Event,
        (look, decision): (Look, Matching),
        now: Time,
    ) -> SettledItem {
        let (slot, mask) = (self.tenants[tenant].slot, self.tenants[tenant].mask);
        let (minute, key) = (bucket_minute(event.id), dedup_key(mask, event.id));
        let numbered = self.slot(slot).lane.is_some();
        // Events that arrive together may repeat each other; a lane's come one by one.
        let look = if look == Look::Fresh && !numbered { self.dedup.look(slot, minute, key) } else { look };
        match look {
            // Read again by the same number: it is stored, and its jobs are known.
            Look::Duplicate(sequence) if numbered && sequence == event.sequence => {
                let jobs = self.slot(slot).ahead.remove(&sequence).unwrap_or_default();
                self.read_again(event, &jobs, now);
                return SettledItem::Stored(sequence);
            }
            Look::Duplicate(sequence) => {
                self.counters.events_duplicate += 1;
                return SettledItem::Duplicate(sequence);
            }
            Look::Fresh | Look::Unread => {}
        }
        let state = self.slot(slot);
        let sequence = if numbered { event.sequence } else { state.next };
        state.next = state.next.max(sequence.next());
        event.sequence = sequence;
        self.dedup.insert(slot, minute, key, sequence);
        self.counters.events_accepted += 1;
        self.make_jobs(tenant, &Rc::new(event), &decision, now);
        SettledItem::Stored(sequence)
    }

    /// Makes the event's row and a job for each subscription that matches.
    fn make_jobs(&mut self, tenant: Handle<Tenant>, event: &Rc<Event>, decision: &Matching, now: Time) {
        let mut found = Vec::new();
        self.tenants[tenant].matcher.found(decision, &mut found);
        let subscribers: Vec<Handle<Subscriber>> =
            found.into_iter().filter_map(|index| self.subscribers.handle_at(index)).collect();
        let jobs = subscribers.iter().map(|subscriber| self.new_job(*subscriber)).collect::<Vec<_>>();
        if jobs.is_empty() {
            self.counters.events_without_subscription += 1;
        }
        self.counters.jobs_made.add(Trigger::Match.as_str(), jobs.len() as u64);
        let slot = self.tenants[tenant].slot;
        self.slot(slot).pipeline.push(Row::Event { event: Rc::clone(event), jobs });
        let mut held = None;
        for (ordinal, subscriber) in subscribers.into_iter().enumerate() {
            let ordinal = u16::try_from(ordinal).expect("a tenant's subscriptions are far below 2^16");
            let key = JobKey { slot, sequence: event.sequence, ordinal };
            if self.spills(subscriber, event.sequence) {
                self.spill(subscriber, event.sequence);
            } else {
                let held = *held.get_or_insert_with(|| self.hold(Rc::clone(event), tenant));
                self.queue_new_job(key, subscriber, held, now);
            }
        }
    }

    fn new_job(&self, subscriber: Handle<Subscriber>) -> NewJob {
        let subscription = &self.subscribers[subscriber].subscription;
        NewJob { subscription: subscription.id, destination: subscription.destination_id, claim: None }
    }

    /// Puts an event into memory for its jobs.
    pub(super) fn hold(&mut self, event: Rc<Event>, tenant: Handle<Tenant>) -> Handle<HeldEvent> {
        self.held_bytes += event.weight();
        self.tenants[tenant].bytes += event.weight();
        self.held.insert(HeldEvent { event, tenant, jobs: 0 })
    }

    /// Whether a new job of this subscription has to wait in the log.
    pub(super) fn spills(&self, handle: Handle<Subscriber>, sequence: Sequence) -> bool {
        let subscriber = &self.subscribers[handle];
        if subscriber.overflow.is_some_and(|overflow| sequence >= overflow.next_read) {
            return true;
        }
        let waiting = subscriber.queue.waiting(super::job::Class::First);
        waiting >= self.settings.bounds.queue_head_jobs || !self.has_room(handle)
    }

    /// Leaves a job to the log, behind the subscription's overflow cursor.
    pub(super) fn spill(&mut self, handle: Handle<Subscriber>, sequence: Sequence) {
        self.counters.jobs_spilled += 1;
        let subscriber = &mut self.subscribers[handle];
        match &mut subscriber.overflow {
            Some(overflow) => {
                overflow.next_read = overflow.next_read.min(sequence);
                overflow.last_spilled = overflow.last_spilled.max(sequence);
            }
            None => self.begin_overflow(handle, sequence),
        }
        self.write_cursor(handle);
        self.refill_if_low(handle);
    }
}
