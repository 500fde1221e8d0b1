//! A probe for a circuit whose jobs all lie in the store: the due rows of the slot are looked through for one.
//!
//! While a circuit is not closed its destination keeps a job in memory to probe with. After a restart, or when
//! that one has ended, there may be none though far retries wait. One page at a tick, from the horizon on, serves
//! every destination of the slot that looked for one when the search began; found in vain, nothing is looked for
//! again until a job of the destination goes to the store.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::arena::Handle;
use super::circuit::Permit;
use super::job::{Cover, Job};
use super::rows::{DueRow, Read};
use super::shard::{Asked, Shard};
use super::target::Target;
use crate::types::{JobKey, Slot, Time};

/// The search in one slot.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Destinations that wait for the next search.
    wanted: BTreeSet<Handle<Target>>,
    /// Destinations that are looked for now.
    under_way: BTreeSet<Handle<Target>>,
    /// The last row that was looked at.
    after: Option<(Time, JobKey)>,
    reading: bool,
}

impl Shard {
    /// A destination has no job in memory to probe with: one is looked for in the store.
    pub(super) fn search_probe(&mut self, handle: Handle<Target>) {
        let target = &self.targets[handle];
        if !target.searched {
            let slot = self.tenants[target.tenant].slot;
            self.slot(slot).search.wanted.insert(handle);
        }
    }

    /// What may be attempted has changed: a destination that has looked in vain may find something now.
    pub(super) fn search_again(&mut self, handle: Handle<Target>, now: Time) {
        let target = &mut self.targets[handle];
        target.searched = false;
        if target.circuit.next_probe_at().is_some() {
            self.wake_target_at(handle, now);
        }
    }

    /// Reads the next page, if anything is looked for.
    pub(super) fn search_on(&mut self, slot: Slot) {
        let state = self.slot(slot);
        let from = state.due.horizon;
        let search = &mut state.search;
        if search.reading {
            return;
        }
        if search.under_way.is_empty() {
            search.after = None;
            search.under_way = std::mem::take(&mut search.wanted);
        }
        if search.under_way.is_empty() {
            return;
        }
        search.reading = true;
        let after = search.after;
        self.ask(Asked::Search(slot), Read::Due { slot, from, after, to: Time::MAX });
    }

    /// A page of due rows came.
    pub(super) fn searched(&mut self, slot: Slot, rows: Vec<DueRow>, more: bool, now: Time) {
        let last = rows.last().map(|row| (row.at, row.key));
        for row in rows {
            self.consider_probe(slot, row, now);
        }
        let search = &mut self.slot(slot).search;
        search.reading = false;
        search.after = last.or(search.after);
        if more {
            return;
        }
        for handle in std::mem::take(&mut search.under_way) {
            if let Some(target) = self.targets.get_mut(handle) {
                target.searched = true;
            }
        }
    }

    /// Takes the row's job into memory if its destination looks for one that it could probe with.
    fn consider_probe(&mut self, slot: Slot, row: DueRow, now: Time) {
        let Some(logged) = row.event.filter(|logged| !logged.payload_expired) else { return };
        let Some(record) = logged.jobs.iter().find(|job| job.key == row.key && job.end.is_none()).cloned() else {
            return;
        };
        let Some(subscriber) = self.subscriber_of.get(&record.subscription).copied() else { return };
        let state = &self.subscribers[subscriber];
        let (target, tenant) = (state.target, state.tenant);
        let able = state.is_live() && !self.tenants[tenant].paused && record.open_claim.is_none();
        let looked_for = self.slot(slot).search.under_way.contains(&target);
        if !able || !looked_for || self.job_of.contains_key(&row.key) || self.is_outdated(&row.key) {
            return;
        }
        self.slot(slot).search.under_way.remove(&target);
        if self.targets[target].circuit.permit(now) != Permit::Probe {
            return;
        }
        let held = self.hold(Rc::new(logged.event), tenant);
        let class = self.class_of(&record, subscriber);
        let job = self.logged_job(&record, subscriber, held, now);
        let handle = self.add_job(Job { class, cover: Cover::Due(row.at), ..job });
        self.let_wait(handle, now);
        self.wake_target_at(target, now);
    }
}
