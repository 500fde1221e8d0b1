//! The committer: one thread that merges whatever waits into one write and one fsync, then tells each.
//!
//! A failed write is fatal: nobody is told anything, and the fault ends the process. What was told before is
//! on disk; a restart begins from there.

use std::collections::BTreeMap;

use fjall::PersistMode;

use super::rotation::Fill;
use super::tables::Tables;
use crate::engine::{BatchNumber, Unit};
use crate::store::codec::batch::{Arrivals, EncodedBatch, Table};
use crate::store::codec::{key, slot};
use crate::store::{StoreEvent, StoreFault};
use crate::types::{Slot, limits};

/// Rows to make durable.
#[derive(Debug)]
pub struct Submission {
    /// The rows.
    pub batch: EncodedBatch,
    /// Whom to tell.
    pub done: Done,
}

/// Whom to tell once rows are durable.
#[derive(Debug)]
pub enum Done {
    /// A shard, about its batches.
    Shard(flume::Sender<StoreEvent>, Vec<(Unit, BatchNumber)>),
    /// Somebody who waits for this one write.
    Waiter(flume::Sender<()>),
}

/// Runs until every sender of submissions is gone, or a write fails.
pub struct Committer {
    tables: Tables,
    submissions: flume::Receiver<Submission>,
    faults: flume::Sender<StoreFault>,
    fill: Fill,
    /// The last minute of each slot that has a mark.
    marked: BTreeMap<Slot, u64>,
}

impl Committer {
    /// Builds one; it does nothing until [`Committer::run`].
    pub const fn new(
        tables: Tables,
        submissions: flume::Receiver<Submission>,
        faults: flume::Sender<StoreFault>,
        fill: Fill,
    ) -> Self {
        Self { tables, submissions, faults, fill, marked: BTreeMap::new() }
    }

    /// The thread's loop.
    pub fn run(mut self) {
        while let Ok(first) = self.submissions.recv() {
            let group = self.gather(first);
            if let Err(error) = self.commit(&group) {
                // A second fault has nothing to add: a full channel means the process is ending.
                let _ = self.faults.try_send(StoreFault(error.to_string()));
                return;
            }
            self.fill.add(group.iter().map(|submission| submission.batch.byte_size()).sum());
            for submission in group {
                submission.done.tell();
            }
        }
    }

    fn gather(&self, first: Submission) -> Vec<Submission> {
        let mut bytes = first.batch.byte_size();
        let mut group = vec![first];
        while bytes < limits::STORE_COMMIT_BYTES && group.len() < limits::STORE_SUBMISSIONS {
            let Ok(next) = self.submissions.try_recv() else { break };
            bytes += next.batch.byte_size();
            group.push(next);
        }
        group
    }

    fn commit(&mut self, group: &[Submission]) -> fjall::Result<()> {
        let mut marks = EncodedBatch::default();
        for arrivals in group.iter().flat_map(|submission| submission.batch.arrivals()) {
            self.mark(*arrivals, &mut marks)?;
        }
        write(&self.tables, group.iter().map(|submission| &submission.batch).chain([&marks]))
    }

    /// Notes the first sequence of a minute, for retention and for lists by time.
    fn mark(&mut self, arrivals: Arrivals, marks: &mut EncodedBatch) -> fjall::Result<()> {
        if self.marked.get(&arrivals.slot).is_some_and(|last| *last >= arrivals.minute) {
            return Ok(());
        }
        self.marked.insert(arrivals.slot, arrivals.minute);
        let key = key::arrivals(arrivals.slot, arrivals.minute);
        if !self.tables.of(Table::State).contains_key(&key)? {
            marks.put_with(
                Table::State,
                |out| out.extend_from_slice(&key),
                |out| slot::encode_sequence(arrivals.first, out),
            );
        }
        Ok(())
    }
}

impl Done {
    fn tell(self) {
        // A receiver that is gone needs no answer: its shard or its request has ended.
        match self {
            Self::Shard(events, batches) => drop(events.send(StoreEvent::Committed(batches))),
            Self::Waiter(waiter) => drop(waiter.send(())),
        }
    }
}

/// Writes batches as one, in order, and makes them durable.
///
/// # Errors
/// Whatever fjall could not write; what became of the batches is then unknown.
pub fn write<'a>(tables: &Tables, batches: impl IntoIterator<Item = &'a EncodedBatch>) -> fjall::Result<()> {
    let mut all = tables.database.batch().durability(Some(PersistMode::SyncAll));
    for (table, key, value) in batches.into_iter().flat_map(EncodedBatch::rows) {
        match value {
            Some(value) => all.insert(tables.of(table), key, value),
            None => all.remove(tables.of(table), key),
        }
    }
    all.commit()?;
    tables.count_fsync();
    Ok(())
}
