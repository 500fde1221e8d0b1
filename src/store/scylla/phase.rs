//! Rows gathered into phases, and each phase's rows into writes of one partition.

use std::collections::BTreeMap;

use super::statement::{Partition, Statement, Value};
use crate::types::limits;

/// When a row is written, in order. Why the order is safe stands in [`super::plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What later rows name, and what must not be missing once a job has ended.
    Named,
    /// What brings a job back by time.
    Covers,
    /// The log, and what is derived from earlier batches.
    Log,
    /// Overflow cursors, set, moved or removed.
    Cursors,
    /// What says that all this is done.
    Records,
}

/// One row to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRow {
    /// How.
    pub statement: Statement,
    /// What is bound, in order.
    pub values: Vec<Value>,
}

/// Rows of one partition that the server writes as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionWrite {
    /// Where.
    pub partition: Partition,
    /// At least one.
    pub rows: Vec<PlannedRow>,
}

/// Writes that may be on their way together; the next phase waits for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Which.
    pub stage: Stage,
    /// At least one.
    pub writes: Vec<PartitionWrite>,
}

/// Gathers rows by stage and partition.
#[derive(Debug, Default)]
pub struct Gather {
    stages: BTreeMap<Stage, BTreeMap<Partition, Vec<Grouped>>>,
    count: u64,
}

/// A row with what it must not be parted from: all rows of a partition with the same `group`.
#[derive(Debug)]
struct Grouped {
    group: u64,
    row: PlannedRow,
}

impl Gather {
    /// Adds a row that stands for itself.
    pub fn put(&mut self, stage: Stage, partition: Partition, row: PlannedRow) {
        self.count += 1;
        self.put_with(stage, partition, self.count, row);
    }

    /// Adds a row that is never parted from the others of its partition with the same `group`.
    pub fn put_with(&mut self, stage: Stage, partition: Partition, group: u64, row: PlannedRow) {
        self.stages.entry(stage).or_default().entry(partition).or_default().push(Grouped { group, row });
    }

    /// The phases, in order; stages without rows have none.
    #[must_use]
    pub fn finish(self) -> Vec<Phase> {
        let phase = |(stage, partitions): (Stage, BTreeMap<Partition, Vec<Grouped>>)| Phase {
            stage,
            writes: partitions.into_iter().flat_map(|(partition, rows)| cut(&partition, rows)).collect(),
        };
        self.stages.into_iter().map(phase).collect()
    }
}

/// Cuts a partition's rows into writes of bounded size, between groups only.
fn cut(partition: &Partition, mut rows: Vec<Grouped>) -> Vec<PartitionWrite> {
    rows.sort_by_key(|grouped| grouped.group);
    let mut writes: Vec<PartitionWrite> = Vec::new();
    let (mut bytes, mut rows) = (0, rows.into_iter().peekable());
    while let Some(first) = rows.next() {
        let mut group = vec![first.row];
        while let Some(next) = rows.next_if(|next| next.group == first.group) {
            group.push(next.row);
        }
        let size: usize = group.iter().map(PlannedRow::weight).sum();
        match writes.last_mut() {
            Some(last) if bytes + size <= limits::CQL_WRITE_BYTES && fits(last, &group) => {
                last.rows.append(&mut group);
                bytes += size;
            }
            Some(_) | None => {
                writes.push(PartitionWrite { partition: partition.clone(), rows: group });
                bytes = size;
            }
        }
    }
    writes
}

const fn fits(write: &PartitionWrite, group: &[PlannedRow]) -> bool {
    write.rows.len() + group.len() <= limits::CQL_WRITE_ROWS
}

impl PlannedRow {
    fn weight(&self) -> usize {
        self.values.iter().map(Value::weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Slot;

    fn row(bytes: usize) -> PlannedRow {
        let blob = Value::Blob(vec![0; bytes].into());
        PlannedRow { statement: Statement::PutLog, values: vec![blob] }
    }

    fn log() -> Partition {
        Partition::Log(Slot(1), 0)
    }

    #[test]
    fn rows_of_a_partition_and_stage_merge_up_to_a_bound() {
        let mut gather = Gather::default();
        for _ in 0..=limits::CQL_WRITE_ROWS {
            gather.put(Stage::Log, log(), row(1));
        }
        gather.put(Stage::Named, log(), row(1));
        gather.put(Stage::Log, Partition::Log(Slot(1), 1), row(1));
        let phases = gather.finish();
        let stages: Vec<Stage> = phases.iter().map(|phase| phase.stage).collect();
        assert_eq!(stages, [Stage::Named, Stage::Log]);
        let sizes: Vec<usize> = phases[1].writes.iter().map(|write| write.rows.len()).collect();
        assert_eq!(sizes, [limits::CQL_WRITE_ROWS, 1, 1]);
    }

    #[test]
    fn a_group_is_never_parted_though_it_is_larger_than_the_bound() {
        let mut gather = Gather::default();
        let half = limits::CQL_WRITE_BYTES / 2;
        gather.put_with(Stage::Log, log(), 7, row(half));
        gather.put_with(Stage::Log, log(), 8, row(10));
        gather.put_with(Stage::Log, log(), 7, row(half + 1));
        gather.put_with(Stage::Log, log(), 8, row(10));
        let phases = gather.finish();
        let sizes: Vec<usize> = phases[0].writes.iter().map(|write| write.rows.len()).collect();
        assert_eq!(sizes, [2, 2]);
    }
}
