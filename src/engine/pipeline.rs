//! The way of one unit's batches to the store: one on its way, the next one gathering.
//!
//! Batches of a unit become durable in order. A batch that the store cannot take now is tried again for ever;
//! one that it rejects is taken apart at its arrivals, so that the one record to blame is found and the rest
//! goes through. What follows from a row (an answer, an attempt) is an [`Effect`] that waits beside it.
//!
//! Nobody waits for what became of an attempt to be durable: such rows linger a moment for others of their shard to
//! share a sync with. A crash may hide them as it hides those on their way: then the attempt counts as cut.

use std::collections::VecDeque;
use std::rc::Rc;

use super::arena::Handle;
use super::command::Asker;
use super::job::Job;
use super::rows::{Batch, BatchNumber, Row, Unit};
use super::{CommandResult, LaneNumber, Refusal, SettledItem, Ticket};
use crate::types::{Duration, ErrorKind, Event, JobKey, Sequence, Time, limits};

/// What follows once a row is durable.
#[derive(Debug)]
pub(super) enum Effect {
    /// An arrival is settled. `again` holds its events when one is a duplicate of a copy that was not durable.
    Settle { ticket: Ticket, items: Vec<SettledItem>, again: Option<Vec<Event>> },
    /// A claim holds: the attempt may start.
    Start(Handle<Job>),
    /// A due row is durable.
    DueWritten(Time),
    /// A job has left memory, and the log says so.
    Departed(JobKey),
    /// A command is done.
    Command(Asker, CommandResult),
    /// The event's commands may go on.
    Unlock(Sequence),
    /// The ids taken last are written.
    IdsWritten,
    /// A lane's record is in quarantine.
    LaneSettled(LaneNumber, u64),
}

/// Rows that go to the store together.
#[derive(Debug, Default)]
struct Piece {
    rows: Rc<Vec<Row>>,
    /// Each effect with the number of rows that were there before it.
    effects: Vec<(usize, Effect)>,
    /// (begin, end) of the rows of each arrival, ascending and apart.
    arrivals: Vec<(usize, usize)>,
}

/// Rows gathering for the next batch.
#[derive(Debug, Default)]
struct Gathering {
    rows: Vec<Row>,
    bytes: usize,
    effects: Vec<(usize, Effect)>,
    arrivals: Vec<(usize, usize)>,
    /// (sequence, row) of each new event, ascending.
    events: Vec<(Sequence, usize)>,
    /// Somebody waits for it.
    awaited: bool,
}

/// What a commit brought.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// The highest sequence among the batch's events.
    pub(super) highest: Option<Sequence>,
    /// What follows, in order.
    pub(super) effects: Vec<Effect>,
}

/// What a rejection means.
#[derive(Debug)]
pub(super) enum Rejected {
    /// The batch is tried again, whole or in parts.
    Again,
    /// This arrival was rejected alone and again: its rows are to be replaced.
    Unstorable { rows: Rc<Vec<Row>>, effects: Vec<Effect> },
}

/// One unit's pipeline.
#[derive(Debug)]
pub(super) struct Pipeline {
    unit: Unit,
    number: u64,
    gathering: Gathering,
    /// The front is on its way, or waits to be tried again.
    pieces: VecDeque<Piece>,
    on_its_way: bool,
    /// Ready, and waiting for its turn.
    in_line: bool,
    refusals: u32,
    retry_at: Option<Time>,
    /// Until then rows that nobody waits for may gather.
    linger_until: Option<Time>,
}

impl Pipeline {
    pub(super) fn new(unit: Unit) -> Self {
        Self {
            unit,
            number: 0,
            gathering: Gathering::default(),
            pieces: VecDeque::new(),
            on_its_way: false,
            in_line: false,
            refusals: 0,
            retry_at: None,
            linger_until: None,
        }
    }

    /// Adds a row to the next batch.
    pub(super) fn push(&mut self, row: Row) {
        self.gathering.bytes += weight(&row);
        if let Row::Event { event, .. } = &row {
            self.gathering.events.push((event.sequence, self.gathering.rows.len()));
        }
        self.gathering.awaited |= is_awaited(&row);
        self.gathering.rows.push(row);
    }

    /// Lets `effect` follow the rows pushed so far.
    pub(super) fn follow(&mut self, effect: Effect) {
        self.gathering.awaited |= effect.is_awaited();
        self.gathering.effects.push((self.gathering.rows.len(), effect));
    }

    /// Marks the rows pushed since there were `begin` as one arrival.
    pub(super) fn close_arrival(&mut self, begin: usize) {
        let end = self.gathering.rows.len();
        if end > begin {
            self.gathering.arrivals.push((begin, end));
        }
    }

    /// How many rows gather.
    pub(super) fn gathered(&self) -> usize {
        self.gathering.rows.len()
    }

    /// Whether the next batch takes no more arrivals for now.
    pub(super) fn is_full(&self, rows: usize, bytes: usize) -> bool {
        self.gathering.rows.len() >= rows || self.gathering.bytes >= bytes
    }

    /// The jobs of a new event that still gathers, so that a claim can ride in its row.
    pub(super) fn gathering_jobs(&mut self, sequence: Sequence) -> Option<&mut Vec<super::rows::NewJob>> {
        let found = self.gathering.events.binary_search_by_key(&sequence, |(other, _)| *other).ok()?;
        let (_, row) = self.gathering.events[found];
        self.gathering.rows[row].new_jobs()
    }

    /// Whether nothing gathers and nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.pieces.is_empty() && self.gathering.rows.is_empty() && self.gathering.effects.is_empty()
    }

    /// When a batch that is not ready now will be: one that was refused, or one that nobody waits for.
    pub(super) fn wake_at(&self) -> Option<Time> {
        self.retry_at.or(self.linger_until).filter(|_| !self.in_line)
    }

    /// Whether a batch has become ready, which then waits for its turn. Effects that wait for no row come back through
    /// [`Pipeline::settle_without_rows`].
    pub(super) fn lines_up(&mut self, now: Time) -> bool {
        if self.in_line || self.on_its_way || self.retry_at.is_some_and(|at| now < at) {
            return false;
        }
        self.in_line = !self.pieces.is_empty() || (!self.gathering.rows.is_empty() && !self.may_linger(now));
        self.in_line
    }

    /// The batch whose turn has come, with all that has gathered by now.
    pub(super) fn next_batch(&mut self) -> Batch {
        debug_assert!(self.in_line, "only what is ready has a turn");
        self.in_line = false;
        if self.pieces.is_empty() {
            let gathering = std::mem::take(&mut self.gathering);
            self.linger_until = None;
            self.pieces.push_back(gathering.into_piece());
        }
        if self.retry_at.take().is_none() {
            self.number += 1;
        }
        self.on_its_way = true;
        let rows = Rc::clone(&self.pieces.front().expect("a piece was just seen or made").rows);
        Batch { unit: self.unit, number: BatchNumber(self.number), rows }
    }

    /// Whether it has rows that linger.
    pub(super) const fn lingers(&self) -> bool {
        self.linger_until.is_some() && !self.in_line
    }

    /// Lets what lingers go with the next batch.
    pub(super) const fn stop_lingering(&mut self) {
        self.gathering.awaited |= self.linger_until.is_some();
    }

    fn may_linger(&mut self, now: Time) -> bool {
        !self.gathering.awaited && now < *self.linger_until.get_or_insert(now + limits::OUTCOME_LINGER)
    }

    /// Effects that gathered without any row while nothing is on its way: they hold already.
    pub(super) fn settle_without_rows(&mut self) -> Vec<Effect> {
        if !self.pieces.is_empty() || !self.gathering.rows.is_empty() {
            return Vec::new();
        }
        std::mem::take(&mut self.gathering.effects).into_iter().map(|(_, effect)| effect).collect()
    }

    /// A batch is durable. An answer to anything but the batch on its way is ignored.
    pub(super) fn committed(&mut self, number: BatchNumber) -> Option<Durable> {
        if !self.on_its_way || number.0 != self.number {
            return None;
        }
        self.on_its_way = false;
        self.refusals = 0;
        let piece = self.pieces.pop_front().expect("what is on its way is the front piece");
        let effects = piece.effects.into_iter().map(|(_, effect)| effect).collect();
        Some(Durable { highest: highest_sequence(&piece.rows), effects })
    }

    /// A batch was refused: it is tried again later, in parts if the store rejects it as it is.
    pub(super) fn refused(&mut self, number: BatchNumber, refusal: Refusal, now: Time) -> Rejected {
        if !self.on_its_way || number.0 != self.number {
            return Rejected::Again;
        }
        self.on_its_way = false;
        self.refusals += 1;
        self.retry_at = Some(now + retry_pause(self.refusals));
        match refusal {
            Refusal::Unavailable => Rejected::Again,
            Refusal::Rejected => self.rejected(),
        }
    }

    fn rejected(&mut self) -> Rejected {
        let front = self.pieces.front().expect("what was on its way is the front piece");
        let alone = front.arrivals.as_slice() == [(0, front.rows.len())];
        if alone && self.refusals >= limits::STORE_REFUSALS_ALONE {
            let piece = self.pieces.pop_front().expect("the front was just seen");
            self.begin_next_piece();
            let effects = piece.effects.into_iter().map(|(_, effect)| effect).collect();
            return Rejected::Unstorable { rows: piece.rows, effects };
        }
        if !alone && !front.arrivals.is_empty() && self.refusals >= limits::STORE_REFUSALS_BEFORE_SPLIT {
            let piece = self.pieces.pop_front().expect("the front was just seen");
            for part in piece.split().into_iter().rev() {
                self.pieces.push_front(part);
            }
            self.begin_next_piece();
        }
        Rejected::Again
    }

    /// Puts rows and effects at the head of the line, in place of an arrival that can't be stored.
    pub(super) fn replace_front(&mut self, rows: Vec<Row>, effects: Vec<Effect>) {
        let count = rows.len();
        let effects = effects.into_iter().map(|effect| (count, effect)).collect();
        self.pieces.push_front(Piece { rows: Rc::new(rows), effects, arrivals: Vec::new() });
    }

    fn begin_next_piece(&mut self) {
        self.refusals = 0;
        self.retry_at = None;
    }
}

impl Effect {
    /// Whether somebody waits for it to follow.
    const fn is_awaited(&self) -> bool {
        match self {
            Self::Settle { .. } | Self::Start(_) | Self::Command(..) | Self::Unlock(_) | Self::LaneSettled(..) => true,
            Self::DueWritten(_) | Self::Departed(_) | Self::IdsWritten => false,
        }
    }
}

/// Whether a row is more than what became of an attempt, and what is written behind.
fn is_awaited(row: &Row) -> bool {
    match row {
        // Found open after a crash, or cut before it started: a crash must not count it again.
        Row::Attempt { record, .. } => record.reclaim || record.outcome.error_kind == Some(ErrorKind::Interrupted),
        Row::Event { .. }
        | Row::Run { .. }
        | Row::Claim { .. }
        | Row::End { .. }
        | Row::Overflow { .. }
        | Row::Lane { .. }
        | Row::Quarantine(_) => true,
        Row::DeadLetter { .. } | Row::Due { .. } | Row::Destination { .. } | Row::Ids { .. } | Row::Slot(_) => false,
    }
}

impl Gathering {
    fn into_piece(self) -> Piece {
        Piece { rows: Rc::new(self.rows), effects: self.effects, arrivals: self.arrivals }
    }
}

impl Piece {
    /// Cuts the piece before and after each arrival; effects stay with the rows they follow.
    fn split(self) -> Vec<Self> {
        let mut cuts = vec![0, self.rows.len()];
        cuts.extend(self.arrivals.iter().flat_map(|(begin, end)| [*begin, *end]));
        cuts.sort_unstable();
        cuts.dedup();
        let mut effects = self.effects.into_iter().peekable();
        let mut parts = Vec::new();
        for cut in cuts.windows(2) {
            let (begin, end) = (cut[0], cut[1]);
            let mut part = Self { rows: Rc::new(self.rows[begin..end].to_vec()), ..Self::default() };
            if self.arrivals.contains(&(begin, end)) {
                part.arrivals.push((0, end - begin));
            }
            while let Some((_, effect)) = effects.next_if(|(rows, _)| *rows <= end) {
                part.effects.push((end - begin, effect));
            }
            parts.push(part);
        }
        parts
    }
}

fn retry_pause(refusals: u32) -> Duration {
    let doubled = limits::STORE_RETRY_MIN.times(1 << refusals.saturating_sub(1).min(16));
    doubled.min(limits::STORE_RETRY_MAX)
}

fn highest_sequence(rows: &[Row]) -> Option<Sequence> {
    rows.iter().filter_map(Row::new_event).map(|event| event.sequence).max()
}

/// What a row weighs in a batch, in bytes, roughly.
fn weight(row: &Row) -> usize {
    const ROW_BYTES: usize = 96;
    if let Row::Event { event, jobs } = row { event.weight() + jobs.len() * ROW_BYTES } else { ROW_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{LaneName, Slot};

    fn row(position: u64) -> Row {
        Row::Lane { name: LaneName("kafka/a/0".into()), position }
    }

    fn pipeline_with(arrivals: u64) -> Pipeline {
        let mut pipeline = Pipeline::new(Unit::Slot(Slot(0)));
        pipeline.push(row(100));
        for offset in 0..arrivals {
            let begin = pipeline.gathered();
            pipeline.push(row(offset));
            pipeline.close_arrival(begin);
            pipeline.follow(Effect::LaneSettled(LaneNumber(0), offset));
        }
        pipeline
    }

    fn next(pipeline: &mut Pipeline, now: Time) -> Option<Batch> {
        pipeline.lines_up(now).then(|| pipeline.next_batch())
    }

    fn offsets(effects: &[Effect]) -> Vec<u64> {
        effects.iter().map(|effect| if let Effect::LaneSettled(_, offset) = effect { *offset } else { 0 }).collect()
    }

    #[test]
    fn the_next_batch_gathers_while_one_is_on_its_way() {
        let mut pipeline = pipeline_with(2);
        let first = next(&mut pipeline, Time(1)).expect("rows gathered");
        assert_eq!(first.rows.len(), 3);
        pipeline.push(row(7));
        assert!(next(&mut pipeline, Time(1)).is_none());
        assert!(pipeline.committed(BatchNumber(9)).is_none());
        let durable = pipeline.committed(first.number).expect("it was on its way");
        assert_eq!(offsets(&durable.effects), [0, 1]);
        assert!(pipeline.committed(first.number).is_none(), "a second answer is ignored");
        assert_eq!(next(&mut pipeline, Time(1)).map(|batch| batch.rows.len()), Some(1));
    }

    #[test]
    fn what_nobody_waits_for_lingers_until_something_is_waited_for_or_its_time() {
        let mut pipeline = Pipeline::new(Unit::Slot(Slot(0)));
        let ids = || Row::Ids { minute: 0, entries: Vec::new() };
        pipeline.push(ids());
        pipeline.follow(Effect::IdsWritten);
        assert!(next(&mut pipeline, Time(1)).is_none());
        let until = Time(1) + limits::OUTCOME_LINGER;
        assert_eq!(pipeline.wake_at(), Some(until));
        pipeline.push(ids());
        let first = next(&mut pipeline, until).expect("it has lingered");
        assert_eq!((first.rows.len(), pipeline.wake_at()), (2, None));
        pipeline.committed(first.number).expect("it was on its way");
        pipeline.push(ids());
        assert!(next(&mut pipeline, until).is_none());
        pipeline.push(row(1));
        let second = next(&mut pipeline, until).expect("a lane's position is waited for");
        pipeline.committed(second.number).expect("it was on its way");
        pipeline.push(ids());
        assert!(next(&mut pipeline, until).is_none() && pipeline.lingers());
        pipeline.stop_lingering();
        assert!(next(&mut pipeline, until).is_some() && !pipeline.lingers());
    }

    #[test]
    fn an_absent_store_is_asked_again_with_the_same_batch_for_ever() {
        let mut pipeline = pipeline_with(1);
        let mut now = Time(0);
        let first = next(&mut pipeline, now).expect("rows gathered").number;
        for _ in 0..50 {
            assert!(matches!(pipeline.refused(first, Refusal::Unavailable, now), Rejected::Again));
            assert!(next(&mut pipeline, now).is_none());
            now = pipeline.wake_at().expect("it waits");
            assert_eq!(next(&mut pipeline, now).map(|batch| (batch.number, batch.rows.len())), Some((first, 2)));
        }
    }

    #[test]
    fn a_rejected_batch_is_taken_apart_until_the_record_to_blame_stands_alone() {
        let mut pipeline = pipeline_with(3);
        let mut now = Time(0);
        let mut stored = Vec::new();
        let mut unstorable = Vec::new();
        for _ in 0..40 {
            let Some(batch) = next(&mut pipeline, now) else {
                let Some(at) = pipeline.wake_at() else { break };
                now = at;
                continue;
            };
            if batch.rows.iter().any(|row| matches!(row, Row::Lane { position: 1, .. })) {
                match pipeline.refused(batch.number, Refusal::Rejected, now) {
                    Rejected::Again => {}
                    Rejected::Unstorable { rows, effects } => {
                        assert_eq!(rows.len(), 1);
                        unstorable.extend(offsets(&effects));
                        pipeline.replace_front(vec![row(55)], effects);
                    }
                }
            } else {
                stored.extend(offsets(&pipeline.committed(batch.number).expect("on its way").effects));
            }
        }
        assert_eq!(unstorable, [1]);
        assert_eq!(stored, [0, 1, 2], "each in order, the replacement in the place of the rejected");
        assert!(pipeline.is_idle());
    }
}
