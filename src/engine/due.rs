//! Retries of the far future: rows by time in the store, read in as their time comes near.
//!
//! The horizon is how far they have been read; a row is never written before it. The bound, stored with the
//! slot, passes a row only once its job has ended or has a later durable row, so a restart reads from there.

use super::job::Cover;
use super::load::Logged;
use super::rows::{DueRow, Read};
use super::shard::{Asked, Shard};
use crate::types::{Slot, Time, limits};

impl Shard {
    /// Reads the due rows whose time comes near, if there are any. They are read whatever memory holds: a tenant
    /// that has no room puts its own back, and nobody waits for it.
    pub(super) fn read_ahead(&mut self, slot: Slot, now: Time) {
        let due = &mut self.slot(slot).due;
        if due.reading {
            return;
        }
        let near = now + limits::DUE_READ_AHEAD;
        let to = match due.target {
            Some(target) => target,
            None if due.first.is_some_and(|first| first < near) => match due.readable_to(near) {
                Some(to) => to,
                None => return,
            },
            None => return,
        };
        if due.target.is_none() {
            due.first = None;
        }
        due.target = Some(to);
        due.reading = true;
        let read = Read::Due { slot, from: due.horizon, after: due.after, to };
        self.ask(Asked::Due(slot), read);
    }

    /// A page of due rows came.
    pub(super) fn due_page(&mut self, slot: Slot, rows: Vec<DueRow>, more: bool, first_after: Option<Time>, now: Time) {
        let last = rows.last().map(|row| (row.at, row.key));
        for row in rows {
            self.place_due(row, now);
        }
        let due = &mut self.slot(slot).due;
        due.reading = false;
        if more {
            due.after = last.or(due.after);
            self.read_ahead(slot, now);
            return;
        }
        if let Some(target) = due.target.take() {
            due.horizon = target;
        }
        due.after = None;
        if let Some(first) = first_after {
            due.met(first);
        }
    }

    /// Looks at the job of a due row: one that has ended meanwhile makes the row outdated.
    fn place_due(&mut self, row: DueRow, now: Time) {
        let Some(logged) = row.event else { return };
        let (mut event, jobs) = Logged::open(logged);
        if let Some(record) = jobs.iter().find(|job| job.key == row.key) {
            self.place(&mut event, record, Cover::Due(row.at), now);
        }
    }
}
