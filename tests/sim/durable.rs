//! Checks of what becomes durable, row by row.

use std::collections::{BTreeMap, BTreeSet};

use streaming_hub::engine::Unit;
use streaming_hub::engine::rows::{Batch, NewJob, Row, SlotRecord};
use streaming_hub::types::{AttemptRecord, End, Event, JobKey, RunId, Slot, SubscriptionId, TenantId, Time};

use crate::checks::{Checks, JobPlace, JobView, Rule};

impl Checks {
    /// A batch is durable, now or, the same batch, once more.
    pub fn durable(&mut self, batch: &Batch) {
        for row in batch.rows.iter() {
            match row {
                Row::Event { event, jobs } => self.durable_event(batch.unit, event, jobs),
                Row::Run { tenant, key, subscription, run, .. } => {
                    self.durable_run(&(tenant.clone(), *key), *subscription, *run);
                }
                Row::Claim { claim, .. } => self.durable_claim(claim.attempt),
                Row::Attempt { tenant, key, record, end } => {
                    self.durable_attempt(&(tenant.clone(), *key), record, *end);
                }
                Row::End { tenant, key, end, at } => self.durable_end(&(tenant.clone(), *key), *end, *at),
                Row::DeadLetter { job, event } => {
                    let dead = matches!(job.end, Some((End::DeadLettered(_), _)));
                    self.expect(dead, Rule::End, || {
                        format!("a dead letter of {:?}, which ended {:?}", event.id, job.end)
                    });
                }
                Row::Due { tenant, key, at } => {
                    if let Some(job) = self.jobs.get_mut(&(tenant.clone(), *key)) {
                        job.due.insert(*at);
                    }
                }
                Row::Overflow { subscription, cursor, .. } => {
                    if let Some(cursor) = cursor {
                        self.overflow.insert(*subscription, *cursor);
                    } else {
                        self.overflow.remove(subscription);
                    }
                }
                Row::Ids { entries, .. } => {
                    if let Unit::Slot(slot) = batch.unit {
                        self.flushed_ids.extend(entries.iter().map(|(_, sequence)| (slot, *sequence)));
                    }
                }
                Row::Quarantine(record) if record.reason == "unstorable" => {
                    let id = record.headers.iter().find(|(name, _)| &**name == "ce-id");
                    self.unstorable.extend(id.and_then(|(_, id)| id.clone()));
                    self.quarantined.insert((record.partition, record.offset));
                }
                Row::Quarantine(record) => {
                    self.quarantined.insert((record.partition, record.offset));
                }
                Row::Slot(_) | Row::Destination { .. } | Row::Lane { .. } => {}
            }
        }
        self.check_slot_records(batch);
    }

    fn durable_event(&mut self, unit: Unit, event: &Event, jobs: &[NewJob]) {
        let Unit::Slot(slot) = unit else {
            return self.fail(Rule::Terms, "an event outside a slot's batch".to_owned());
        };
        let place = (event.tenant.clone(), event.id);
        let number = (slot, event.sequence);
        let first = self.events.entry(place.clone()).or_insert(number);
        if *first != number {
            let text = format!("event {} is stored as {first:?} and as {number:?}", event.id);
            return self.fail(Rule::Dedup, text);
        }
        let holder = self.sequences.entry(number).or_insert_with(|| place.clone()).clone();
        self.expect(holder == place, Rule::Dedup, || format!("{number:?} is given to {holder:?} and {place:?}"));
        for (ordinal, job) in (0_u16..).zip(jobs) {
            let key = JobKey { slot, sequence: event.sequence, ordinal };
            self.durable_job(&(event.tenant.clone(), key), job.subscription, RunId::MATCH, event.subject());
            if let Some(claim) = job.claim {
                self.durable_claim(claim.attempt);
            }
        }
    }

    fn durable_job(&mut self, place: &JobPlace, subscription: SubscriptionId, run: RunId, subject: Option<&str>) {
        let durable_at = self.now;
        let known = self.jobs.entry(place.clone()).or_insert_with(|| {
            self.open.insert(place.clone());
            JobView {
                subscription,
                run,
                subject: subject.unwrap_or("").to_owned(),
                end: None,
                durable_at,
                due: BTreeSet::new(),
                commanded: run != RunId::MATCH,
                attempts: BTreeMap::new(),
                successes: Vec::new(),
            }
        });
        let same = known.subscription == subscription && known.run == run;
        self.expect(same, Rule::Jobs, || format!("{place:?} is made twice, differently"));
    }

    fn durable_run(&mut self, place: &JobPlace, subscription: SubscriptionId, run: RunId) {
        let allowed = self.allowed_runs.contains(&run);
        self.expect(allowed, Rule::Jobs, || format!("{place:?} is a run that nobody asked for"));
        let twin = self.jobs.iter().find(|(other, job)| {
            job.run == run
                && job.subscription == subscription
                && other.0 == place.0
                && other.1.sequence == place.1.sequence
                && other.1 != place.1
        });
        if let Some((twin, _)) = twin {
            let text = format!("{place:?} and {twin:?} are one run");
            return self.fail(Rule::Jobs, text);
        }
        let siblings = self.jobs.iter().find(|(other, _)| other.0 == place.0 && other.1.sequence == place.1.sequence);
        let subject = siblings.map(|(_, job)| job.subject.clone());
        self.durable_job(place, subscription, run, subject.as_deref());
    }

    fn durable_claim(&mut self, attempt: streaming_hub::types::AttemptId) {
        if let Some(view) = self.claims.get_mut(&attempt) {
            view.durable = true;
        }
    }

    fn durable_attempt(&mut self, place: &JobPlace, record: &AttemptRecord, end: Option<End>) {
        let Some(job) = self.jobs.get_mut(place) else {
            // As with claims: an event that the store refused may leave one behind.
            let refused = !self.unstorable.is_empty();
            return self.expect(refused, Rule::Jobs, || format!("an attempt of {place:?}, which is no job"));
        };
        let earlier = job.attempts.insert(record.number, record.clone());
        let same = earlier.is_none_or(|earlier| earlier == *record);
        self.expect(same, Rule::Claim, || format!("attempt {} of {place:?} ended in two ways", record.number));
        if let Some(end) = end {
            self.durable_end(place, end, record.outcome.ended_at);
        }
    }

    fn durable_end(&mut self, place: &JobPlace, end: End, at: Time) {
        let Some(job) = self.jobs.get(place).cloned() else {
            let refused = !self.unstorable.is_empty();
            return self.expect(refused, Rule::Jobs, || format!("an end of {place:?}, which is no job"));
        };
        let one = job.end.is_none_or(|earlier| earlier == end || (earlier, end) == (End::Cancelled, End::Delivered));
        self.expect(one, Rule::End, || format!("{place:?} ended {:?} and {end:?}", job.end));
        let right = self.end_is_right(place, &job, end, at);
        self.expect(right, Rule::End, || format!("{place:?} ended {end:?} at {at}: why? {job:?}"));
        self.open.remove(place);
        if let Some(job) = self.jobs.get_mut(place) {
            job.end = Some(end);
        }
    }

    fn check_slot_records(&mut self, batch: &Batch) {
        let record =
            batch.rows.iter().rev().find_map(|row| if let Row::Slot(record) = row { Some(*record) } else { None });
        if let (Some(record), Unit::Slot(slot)) = (record, batch.unit) {
            self.due_bounds.insert(slot, record.due_bound);
            self.check_slot_record(slot, record);
        }
    }

    fn check_slot_record(&mut self, slot: Slot, record: SlotRecord) {
        let forgotten = self.open.iter().find(|place| {
            let covered = self.jobs.get(*place).is_some_and(|job| self.is_covered(place, job, record.due_bound));
            place.1.slot == slot && place.1.sequence < record.low_water && !covered
        });
        if let Some(place) = forgotten.cloned() {
            let text = format!("{record:?} of {slot:?} leaves {place:?} behind: {:?}", self.jobs.get(&place));
            self.fail(Rule::SlotRecord, text);
        }
        let numbers = self.sequences.range((slot, streaming_hub::types::Sequence(0))..(slot, record.flushed));
        let unwritten = numbers.map(|(number, _)| *number).find(|number| !self.flushed_ids.contains(number));
        self.expect(unwritten.is_none(), Rule::SlotRecord, || format!("{record:?}, but {unwritten:?} has no id row"));
    }

    fn is_covered(&self, place: &JobPlace, job: &JobView, due_bound: Time) -> bool {
        let is_due = job.due.range(due_bound..).next().is_some();
        let waits = self.overflow.get(&job.subscription).is_some_and(|cursor| place.1.sequence >= *cursor);
        is_due || waits
    }

    /// The events of a tenant and id, as far as they are durable.
    pub fn is_durable(&self, tenant: &TenantId, id: uuid::Uuid) -> bool {
        self.events.contains_key(&(tenant.clone(), id))
    }
}
