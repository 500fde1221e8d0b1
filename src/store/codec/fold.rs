//! The rows of one event, folded into the event as it stands.
//!
//! Rows may come in any order and more than once: of two ends the stronger stands, a claim whose attempt has
//! ended is closed, counts are of distinct attempts.

use std::collections::BTreeMap;

use super::event::EventRow;
use super::job::{AttemptTrace, EndedTrace, RunRow};
use super::key::LogPart;
use super::{CodecError, event, job};
use crate::engine::rows::{LoggedEvent, NewJob};
use crate::types::{
    ClaimRecord, DestinationId, End, Event, JobKey, JobRecord, RunId, Sequence, Slot, SubscriptionId, TenantId, Time,
    Trigger,
};

/// Gathers the rows of one event.
#[derive(Debug)]
pub struct Fold {
    slot: Slot,
    tenant: TenantId,
    sequence: Sequence,
    event: Option<EventRow>,
    jobs: BTreeMap<u16, Traces>,
}

/// What the rows beside the event's say of one job.
#[derive(Debug, Default)]
struct Traces {
    run: Option<RunRow>,
    attempts: BTreeMap<u32, AttemptTrace>,
    end: Option<(End, Time)>,
}

/// An event as it stands, with what the store knows beside.
#[derive(Clone, Debug)]
pub struct FoldedEvent {
    /// The event and its jobs.
    pub logged: LoggedEvent,
    /// The payload's size in bytes, also when it has expired.
    pub payload_size: u64,
}

impl Fold {
    /// Begins an event.
    #[must_use]
    pub const fn new(slot: Slot, tenant: TenantId, sequence: Sequence) -> Self {
        Self { slot, tenant, sequence, event: None, jobs: BTreeMap::new() }
    }

    /// Whether a row of this tenant and number belongs to it.
    #[must_use]
    pub fn is_of(&self, tenant: &str, sequence: Sequence) -> bool {
        self.sequence == sequence && self.tenant.as_str() == tenant
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`CodecError`] when the row's bytes are not what its key says.
    pub fn add(&mut self, part: LogPart, value: &[u8]) -> Result<(), CodecError> {
        match part {
            LogPart::Event => self.event = Some(event::decode(&self.tenant, self.sequence, value)?),
            LogPart::Run { ordinal } => self.job(ordinal).run = Some(job::decode_run(value)?),
            LogPart::Attempt { ordinal, number } => {
                self.job(ordinal).add_attempt(number, job::decode_trace(value)?);
            }
            LogPart::End { ordinal, .. } => {
                let (end, at) = job::decode_end(value)?;
                self.job(ordinal).add_end(end, at);
            }
        }
        Ok(())
    }

    /// The event as it stands; `None` when its own row has expired.
    #[must_use]
    pub fn finish(mut self) -> Option<FoldedEvent> {
        let row = self.event.take()?;
        let mut jobs = Vec::with_capacity(row.jobs.len());
        for (new, ordinal) in row.jobs.iter().zip(0_u16..) {
            jobs.push(self.matched_job(&row.event, ordinal, new));
        }
        for (ordinal, traces) in std::mem::take(&mut self.jobs) {
            jobs.extend(self.started_job(ordinal, traces));
        }
        let logged = LoggedEvent { event: row.event, jobs, payload_expired: row.payload_expired };
        Some(FoldedEvent { logged, payload_size: row.payload_size })
    }

    /// Only job `ordinal` of the event whose own row is `row`, from that job's rows; `None` when there is no such job.
    #[must_use]
    pub fn finish_job(mut self, row: &EventRow, ordinal: u16) -> Option<JobRecord> {
        if let Some(new) = row.jobs.get(usize::from(ordinal)) {
            return Some(self.matched_job(&row.event, ordinal, new));
        }
        let traces = self.jobs.remove(&ordinal)?;
        self.started_job(ordinal, traces)
    }

    fn matched_job(&mut self, event: &Event, ordinal: u16, new: &NewJob) -> JobRecord {
        let traces = self.jobs.remove(&ordinal).unwrap_or_default();
        let base = self.matched(event, ordinal, new.subscription, new.destination);
        traces.fold_into(base, new.claim)
    }

    fn started_job(&self, ordinal: u16, traces: Traces) -> Option<JobRecord> {
        let run = traces.run?;
        Some(traces.fold_into(self.started(ordinal, &run), None))
    }

    fn job(&mut self, ordinal: u16) -> &mut Traces {
        self.jobs.entry(ordinal).or_default()
    }

    fn matched(
        &self,
        event: &Event,
        ordinal: u16,
        subscription: SubscriptionId,
        destination: DestinationId,
    ) -> JobRecord {
        let run = RunRow {
            subscription,
            destination,
            run: RunId::MATCH,
            trigger: Trigger::Match,
            created_at: event.received_at,
        };
        self.started(ordinal, &run)
    }

    const fn started(&self, ordinal: u16, run: &RunRow) -> JobRecord {
        JobRecord {
            key: JobKey { slot: self.slot, sequence: self.sequence, ordinal },
            subscription: run.subscription,
            destination: run.destination,
            run: run.run,
            trigger: run.trigger,
            created_at: run.created_at,
            attempts: 0,
            counted: 0,
            reclaims: 0,
            open_claim: None,
            next_at: None,
            last_status: None,
            last_error_kind: None,
            end: None,
        }
    }
}

impl Traces {
    fn add_attempt(&mut self, number: u32, trace: AttemptTrace) {
        match trace {
            AttemptTrace::Claimed(_) => {
                self.attempts.entry(number).or_insert(trace);
            }
            AttemptTrace::Ended(ended, end) => {
                if let Some(end) = end {
                    self.add_end(end, ended.ended_at);
                }
                self.attempts.insert(number, trace);
            }
        }
    }

    fn add_end(&mut self, end: End, at: Time) {
        match self.end {
            Some((standing, _)) if standing.stronger(end) == standing => {}
            Some(_) | None => self.end = Some((end, at)),
        }
    }

    fn fold_into(mut self, mut job: JobRecord, first_claim: Option<ClaimRecord>) -> JobRecord {
        if let Some(claim) = first_claim {
            self.attempts.entry(1).or_insert(AttemptTrace::Claimed(claim));
        }
        for trace in self.attempts.into_values() {
            match trace {
                AttemptTrace::Claimed(claim) => job.open_claim = Some(claim),
                AttemptTrace::Ended(ended, _) => count_into(&ended, &mut job),
            }
        }
        job.end = self.end;
        if job.end.is_some() {
            job.next_at = None;
        }
        job
    }
}

fn count_into(ended: &EndedTrace, job: &mut JobRecord) {
    job.attempts += 1;
    job.counted += u32::from(ended.counted);
    job.reclaims += u32::from(ended.reclaim);
    job.next_at = ended.next_at;
    job.last_status = ended.status;
    job.last_error_kind = ended.error_kind;
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::types::{AttemptRecord, EndReason, ErrorKind};

    fn fold_of(event: &Event, jobs: &[NewJob]) -> Fold {
        let mut fold = Fold::new(Slot(1), event.tenant.clone(), event.sequence);
        let mut value = Vec::new();
        event::encode(event, jobs, &mut value);
        fold.add(LogPart::Event, &value).expect("a valid row");
        fold
    }

    fn add_attempt(fold: &mut Fold, record: &AttemptRecord, end: Option<End>) {
        let mut value = Vec::new();
        job::encode_attempt(record, end, &mut value);
        fold.add(LogPart::Attempt { ordinal: 0, number: record.number }, &value).expect("a valid row");
    }

    fn only_job(fold: Fold) -> JobRecord {
        fold.finish().expect("the event's row is there").logged.jobs.remove(0)
    }

    #[test]
    fn a_first_claim_is_open_until_its_attempt_has_ended() {
        let event = samples::plain_event("acme", 1);
        let jobs = [samples::claimed_job(1)];
        assert_eq!(only_job(fold_of(&event, &jobs)).open_claim, jobs[0].claim);
        let mut fold = fold_of(&event, &jobs);
        add_attempt(&mut fold, &samples::failed_attempt(1, ErrorKind::Timeout), None);
        let job = only_job(fold);
        assert_eq!((job.open_claim, job.attempts, job.counted), (None, 1, 1));
        assert_eq!(job.last_error_kind, Some(ErrorKind::Timeout));
        assert!(job.next_at.is_some());
    }

    #[test]
    fn only_reclaims_count_as_reclaims() {
        let event = samples::plain_event("acme", 1);
        let mut fold = fold_of(&event, &[samples::claimed_job(1)]);
        let shutdown = AttemptRecord { counted: false, ..samples::failed_attempt(1, ErrorKind::Interrupted) };
        let crash = AttemptRecord { number: 2, reclaim: true, ..shutdown.clone() };
        add_attempt(&mut fold, &shutdown, None);
        add_attempt(&mut fold, &crash, None);
        let job = only_job(fold);
        assert_eq!((job.attempts, job.counted, job.reclaims), (2, 0, 1));
    }

    #[test]
    fn the_stronger_end_stands_whatever_the_order() {
        let event = samples::plain_event("acme", 1);
        let dead = End::DeadLettered(EndReason::Exhausted);
        for order in [[dead, End::Delivered], [End::Delivered, dead]] {
            let mut fold = fold_of(&event, &[samples::claimed_job(1)]);
            for end in order {
                let mut value = Vec::new();
                job::encode_end(end, Time(9), &mut value);
                fold.add(LogPart::End { ordinal: 0, strength: 0 }, &value).expect("a valid row");
            }
            assert_eq!(only_job(fold).end, Some((End::Delivered, Time(9))));
        }
    }

    #[test]
    fn a_run_is_a_job_of_its_own_and_rows_without_an_event_are_nothing() {
        let event = samples::plain_event("acme", 1);
        let mut fold = fold_of(&event, &[samples::claimed_job(1)]);
        let mut value = Vec::new();
        let run = samples::manual_run(5);
        job::encode_run(&run, &mut value);
        fold.add(LogPart::Run { ordinal: 1 }, &value).expect("a valid row");
        let jobs = fold.finish().expect("the event's row is there").logged.jobs;
        assert_eq!((jobs.len(), jobs[1].run, jobs[1].trigger), (2, run.run, Trigger::Manual));
        let mut alone = Fold::new(Slot(1), event.tenant, event.sequence);
        alone.add(LogPart::Run { ordinal: 1 }, &value).expect("a valid row");
        assert!(alone.finish().is_none());
    }
}
