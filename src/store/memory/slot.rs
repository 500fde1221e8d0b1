//! The rows of one slot: its log and what is derived from it.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::rc::Rc;

use super::Pages;
use super::job::{JobRows, Made};
use crate::engine::rows::{DestinationRecord, DueRow, LoggedEvent, NewJob, SlotRecord, Wanted};
use crate::engine::{BatchNumber, ReadAnswer, Row};
use crate::types::{
    DestinationId, Event, JobKey, JobRecord, RunId, Sequence, Slot, SubscriptionId, TenantId, Time, Trigger,
};

#[derive(Clone, Debug)]
pub(super) struct SlotRows {
    pub(super) slot: Slot,
    /// The record of each owner, by its epoch; the last is the one to go on from.
    records: BTreeMap<u64, SlotRecord>,
    /// When rows were written last that a later batch or a later owner writes over.
    stamps: BTreeMap<Name, Stamp>,
    pub(super) events: BTreeMap<(TenantId, Sequence), EventRows>,
    pub(super) overflow: BTreeMap<(TenantId, SubscriptionId), Sequence>,
    pub(super) destinations: BTreeMap<(TenantId, DestinationId), DestinationRecord>,
    pub(super) due: BTreeMap<(Time, JobKey), TenantId>,
    pub(super) ids: BTreeMap<u64, BTreeMap<u128, Sequence>>,
    pub(super) dead_letters: BTreeMap<JobKey, (Rc<Event>, JobRecord)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct EventRows {
    pub(super) event: Option<Rc<Event>>,
    pub(super) jobs: BTreeMap<u16, JobRows>,
}

impl SlotRows {
    pub(super) fn new(slot: Slot) -> Self {
        Self {
            slot,
            records: BTreeMap::new(),
            stamps: BTreeMap::new(),
            events: BTreeMap::new(),
            overflow: BTreeMap::new(),
            destinations: BTreeMap::new(),
            due: BTreeMap::new(),
            ids: BTreeMap::new(),
            dead_letters: BTreeMap::new(),
        }
    }

    /// The last owner's record.
    pub(super) fn record(&self) -> Option<SlotRecord> {
        self.records.last_key_value().map(|(_, record)| *record)
    }

    /// A new owner: its record is made from the last one's, if there is any. Its epoch.
    pub(super) fn take(&mut self) -> u64 {
        let (epoch, record) = self.records.last_key_value().map_or((0, None), |(last, record)| (*last, Some(*record)));
        let first = SlotRecord { low_water: Sequence(1), flushed: Sequence(1), due_bound: Time::ZERO };
        self.records.insert(epoch + 1, record.unwrap_or(first));
        epoch + 1
    }

    /// A row of a batch. Late, it hides nothing of a later one.
    pub(super) fn apply(&mut self, row: &Row, stamp: Stamp) {
        if let Some(name) = Name::of(row, stamp.0) {
            let last = self.stamps.entry(name).or_insert(stamp);
            if *last > stamp {
                return;
            }
            *last = stamp;
        }
        match row {
            Row::Event { event, jobs } => self.apply_event(event, jobs),
            Row::Run { tenant, key, subscription, destination, run, trigger, created_at } => {
                let made = Made {
                    subscription: *subscription,
                    destination: *destination,
                    run: *run,
                    trigger: *trigger,
                    created_at: *created_at,
                };
                self.job_rows(tenant, *key).made.get_or_insert(made);
            }
            Row::Claim { tenant, key, number, claim } => {
                self.job_rows(tenant, *key).claim(*number, *claim);
            }
            Row::Attempt { tenant, key, record, end } => {
                let job = self.job_rows(tenant, *key);
                job.attempt(record);
                if let Some(end) = end {
                    job.end(*end, record.outcome.ended_at);
                }
            }
            Row::End { tenant, key, end, at } => self.job_rows(tenant, *key).end(*end, *at),
            Row::DeadLetter { event, job } => {
                self.dead_letters.insert(job.key, (Rc::clone(event), (**job).clone()));
            }
            Row::Due { tenant, key, at } => {
                self.due.insert((*at, *key), tenant.clone());
            }
            Row::Overflow { tenant, subscription, cursor } => {
                set_or_remove(&mut self.overflow, (tenant.clone(), *subscription), *cursor);
            }
            Row::Destination { tenant, destination, record } => {
                set_or_remove(&mut self.destinations, (tenant.clone(), *destination), *record);
            }
            Row::Ids { minute, entries } => self.apply_ids(*minute, entries),
            Row::Slot(record) => {
                self.records.insert(stamp.0, *record);
            }
            Row::Lane { .. } | Row::Quarantine(_) => {}
        }
    }

    fn apply_event(&mut self, event: &Rc<Event>, jobs: &[NewJob]) {
        let rows = self.events.entry((event.tenant.clone(), event.sequence)).or_default();
        rows.event = Some(Rc::clone(event));
        for job in rows.jobs.values_mut().filter(|job| job.made.is_some_and(|made| made.run == RunId::MATCH)) {
            job.made = None;
        }
        for (ordinal, job) in (0_u16..).zip(jobs) {
            let job_rows = rows.jobs.entry(ordinal).or_default();
            job_rows.made = Some(Made {
                subscription: job.subscription,
                destination: job.destination,
                run: RunId::MATCH,
                trigger: Trigger::Match,
                created_at: event.received_at,
            });
            if let Some(claim) = job.claim {
                job_rows.claim(1, claim);
            }
        }
    }

    fn apply_ids(&mut self, minute: u64, entries: &[(u128, Sequence)]) {
        let bucket = self.ids.entry(minute).or_default();
        for (key, sequence) in entries {
            let lowest = bucket.entry(*key).or_insert(*sequence);
            *lowest = (*lowest).min(*sequence);
        }
    }

    fn job_rows(&mut self, tenant: &TenantId, key: JobKey) -> &mut JobRows {
        let event = self.events.entry((tenant.clone(), key.sequence)).or_default();
        event.jobs.entry(key.ordinal).or_default()
    }

    pub(super) fn logged(&self, place: &(TenantId, Sequence)) -> Option<LoggedEvent> {
        let rows = self.events.get(place)?;
        let event = rows.event.as_deref()?.clone();
        let key = |ordinal: u16| JobKey { slot: self.slot, sequence: place.1, ordinal };
        let jobs = rows.jobs.iter().filter_map(|(ordinal, job)| job.record(key(*ordinal))).collect();
        Some(LoggedEvent { event, jobs, payload_expired: false })
    }

    pub(super) fn answer_slot(&self) -> ReadAnswer {
        let record = self.record();
        ReadAnswer::Slot {
            record,
            overflow: self.overflow.iter().map(|((tenant, id), cursor)| (tenant.clone(), *id, *cursor)).collect(),
            destinations: self.destinations.iter().map(|((tenant, id), r)| (tenant.clone(), *id, *r)).collect(),
            first_due: self.first_due(record.map_or(Time::ZERO, |record| record.due_bound)),
            claimed: self.claimed_before(record.map_or(Sequence(0), |record| record.low_water)),
        }
    }

    pub(super) fn answer_log(&self, from: Sequence, after: Option<&(TenantId, Sequence)>, pages: Pages) -> ReadAnswer {
        let start = after.map_or(Bound::Unbounded, |place| Bound::Excluded(place.clone()));
        let mut page = Page::new(pages);
        for (place, _) in self.events.range((start, Bound::Unbounded)).filter(|(place, _)| place.1 >= from) {
            if page.is_full() {
                return ReadAnswer::Log { next: page.last, events: page.events };
            }
            page.look_at(place, self.logged(place));
        }
        ReadAnswer::Log { next: None, events: page.events }
    }

    pub(super) fn answer_queue(
        &self,
        tenant: &TenantId,
        range: RangeInclusive<Sequence>,
        wanted: &Wanted,
        pages: Pages,
    ) -> ReadAnswer {
        let mut page = Page::new(pages);
        if range.is_empty() {
            return ReadAnswer::Queue { events: Vec::new(), scanned_to: *range.end() };
        }
        for (place, rows) in self.events.range((tenant.clone(), *range.start())..=(tenant.clone(), *range.end())) {
            if let (true, Some((_, sequence))) = (page.is_full(), &page.last) {
                return ReadAnswer::Queue { scanned_to: *sequence, events: page.events };
            }
            let mut made = rows.jobs.values().filter_map(|job| job.made);
            let is_met = made.any(|made| wanted.is_met(place.1, made.subscription));
            page.look_at(place, if is_met { self.logged(place) } else { None });
        }
        ReadAnswer::Queue { events: page.events, scanned_to: *range.end() }
    }

    pub(super) fn answer_due(&self, from: (Time, Option<(Time, JobKey)>), to: Time, pages: Pages) -> ReadAnswer {
        let (from, after) = from;
        let mut rows = Vec::new();
        let in_range = |at: Time, key: JobKey| at >= from && at < to && after.is_none_or(|last| (at, key) > last);
        for ((at, key), tenant) in self.due.iter().filter(|((at, key), _)| in_range(*at, *key)) {
            if rows.len() >= pages.due_rows {
                return ReadAnswer::Due { rows, more: true, first_after: None };
            }
            rows.push(DueRow { at: *at, key: *key, event: self.logged(&(tenant.clone(), key.sequence)) });
        }
        ReadAnswer::Due { rows, more: false, first_after: self.first_due(to) }
    }

    pub(super) fn answer_ids(&self, minute: u64, from: Sequence, pages: Pages) -> ReadAnswer {
        let bucket = self.ids.get(&minute).into_iter().flatten();
        let mut entries: Vec<_> = bucket.map(|(key, sequence)| (*key, *sequence)).filter(|e| e.1 >= from).collect();
        entries.sort_unstable_by_key(|(key, sequence)| (*sequence, *key));
        entries.truncate(pages.ids.max(1));
        let last = entries.last().filter(|_| entries.len() >= pages.ids.max(1));
        ReadAnswer::Ids { next: last.map(|(_, sequence)| sequence.next()), entries }
    }

    fn claimed_before(&self, low_water: Sequence) -> Vec<(TenantId, JobKey)> {
        let passed = self.events.keys().filter(|(_, sequence)| *sequence < low_water);
        let jobs = passed.filter_map(|place| self.logged(place)).flat_map(|logged| {
            let tenant = logged.event.tenant.clone();
            logged.jobs.into_iter().map(move |job| (tenant.clone(), job))
        });
        let open = jobs.filter(|(_, job)| job.open_claim.is_some());
        open.map(|(tenant, job)| (tenant, job.key)).collect()
    }

    fn first_due(&self, bound: Time) -> Option<Time> {
        self.due.keys().map(|(at, _)| *at).find(|at| *at >= bound)
    }
}

/// When a row was written: the owner's epoch, and the number of its batch.
pub(super) type Stamp = (u64, BatchNumber);

/// What tells a row from others where a later one stands. All other rows only ever add to what is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    /// Of the owner in this epoch.
    Slot(u64),
    Event(TenantId, Sequence),
    Overflow(SubscriptionId),
    Destination(DestinationId),
}

impl Name {
    fn of(row: &Row, epoch: u64) -> Option<Self> {
        match row {
            Row::Slot(_) => Some(Self::Slot(epoch)),
            Row::Event { event, .. } => Some(Self::Event(event.tenant.clone(), event.sequence)),
            Row::Overflow { subscription, .. } => Some(Self::Overflow(*subscription)),
            Row::Destination { destination, .. } => Some(Self::Destination(*destination)),
            Row::Run { .. }
            | Row::Claim { .. }
            | Row::Attempt { .. }
            | Row::End { .. }
            | Row::DeadLetter { .. }
            | Row::Due { .. }
            | Row::Ids { .. }
            | Row::Lane { .. }
            | Row::Quarantine(_) => None,
        }
    }
}

/// A page being filled.
struct Page {
    pages: Pages,
    events: Vec<LoggedEvent>,
    looked_at: usize,
    bytes: usize,
    last: Option<(TenantId, Sequence)>,
}

impl Page {
    fn new(pages: Pages) -> Self {
        Self { pages, events: Vec::new(), looked_at: 0, bytes: 0, last: None }
    }

    fn is_full(&self) -> bool {
        self.looked_at >= self.pages.events.max(1) || self.bytes >= self.pages.bytes
    }

    fn look_at(&mut self, place: &(TenantId, Sequence), wanted: Option<LoggedEvent>) {
        self.looked_at += 1;
        self.last = Some(place.clone());
        if let Some(logged) = wanted {
            self.bytes += logged.event.weight();
            self.events.push(logged);
        }
    }
}

fn set_or_remove<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => {
            map.insert(key, value);
        }
        None => {
            map.remove(&key);
        }
    }
}
