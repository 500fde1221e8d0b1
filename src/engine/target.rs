//! A destination in the shard's eyes: its circuit, limits and share, and what a restart must remember of it.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::arena::Handle;
use super::autodisable::FailureSpan;
use super::circuit::Circuit;
use super::job::Job;
use super::rate::TokenBucket;
use super::rows::{CircuitRecord, DestinationRecord};
use super::subscriber::Subscriber;
use super::tenant::Tenant;
use crate::types::{Destination, Duration, Sequence, Time, limits};

/// One destination.
pub(super) struct Target {
    pub(super) destination: Rc<Destination>,
    pub(super) tenant: Handle<Tenant>,
    pub(super) deleted: bool,

    pub(super) circuit: Circuit,
    pub(super) span: FailureSpan,
    pub(super) bucket: Option<TokenBucket>,
    /// A `Retry-After` holds everything until then.
    pub(super) hold_until: Option<Time>,
    /// What the store has; written again when it differs.
    pub(super) written: DestinationRecord,
    /// It stands in the slot's list of destinations to be written.
    pub(super) dirty: bool,

    pub(super) in_flight: u32,
    /// Mean duration of its attempts in microseconds, each new one weighing an eighth.
    mean_us: u64,
    /// It counts among the slow ones.
    pub(super) slow: bool,
    /// It waits for the slow ones' share.
    pub(super) waits_as_slow: bool,

    /// Subscriptions with something ready, by class.
    pub(super) ring: [VecDeque<Handle<Subscriber>>; 2],
    /// It stands in its tenant's ring, by class.
    pub(super) listed: [bool; 2],
    /// When it will be looked at again.
    pub(super) wake: Option<Time>,
    /// Its jobs in memory that wait for their time, in order of arrival: candidates for a probe.
    pub(super) sleeping: BTreeMap<(Sequence, u16), Handle<Job>>,
    pub(super) subscribers: Vec<Handle<Subscriber>>,
    /// No job of it lies in the store to probe with, as far as the last search found.
    pub(super) searched: bool,
}

impl Target {
    pub(super) fn new(destination: Rc<Destination>, tenant: Handle<Tenant>, now: Time) -> Self {
        Self {
            circuit: Circuit::new(destination.circuit),
            span: FailureSpan::restore(None),
            bucket: destination.rate_limit.map(|limit| TokenBucket::new(limit, now)),
            hold_until: None,
            written: DestinationRecord::default(),
            destination,
            tenant,
            deleted: false,
            dirty: false,
            in_flight: 0,
            mean_us: 0,
            slow: false,
            waits_as_slow: false,
            ring: Default::default(),
            listed: [false, false],
            wake: None,
            sleeping: BTreeMap::new(),
            subscribers: Vec::new(),
            searched: false,
        }
    }

    /// Takes up what the store remembers, before the first attempt.
    pub(super) fn restore(&mut self, record: &DestinationRecord) {
        self.circuit = Circuit::restore(self.destination.circuit, &record.circuit);
        self.span = FailureSpan::restore(record.failure_span);
        self.hold_until = record.hold_until;
        self.written = *record;
    }

    /// Takes over changed settings.
    pub(super) fn change(&mut self, destination: Rc<Destination>, now: Time) {
        self.circuit.change_settings(destination.circuit);
        match (&mut self.bucket, destination.rate_limit) {
            (Some(bucket), Some(limit)) => bucket.change(limit, now),
            (bucket, limit) => *bucket = limit.map(|limit| TokenBucket::new(limit, now)),
        }
        self.destination = destination;
    }

    /// What the store should remember.
    pub(super) fn record(&self) -> DestinationRecord {
        DestinationRecord {
            circuit: self.circuit.record(),
            failure_span: self.span.record(),
            hold_until: self.hold_until,
        }
    }

    /// Whether the record says more than that all is well.
    pub(super) fn is_worth_remembering(record: &DestinationRecord) -> bool {
        let quiet = matches!(record.circuit, CircuitRecord::Closed { failures: 0, .. });
        !quiet || record.failure_span.is_some() || record.hold_until.is_some()
    }

    /// Takes a finished attempt's duration into the mean.
    pub(super) fn took(&mut self, duration: Duration) {
        self.mean_us = (self.mean_us * 7 + duration.0.min(600_000_000)) / 8;
    }

    /// Whether its mean duration makes it a slow one.
    pub(super) fn is_slow_in_the_mean(&self) -> bool {
        self.mean_us > limits::SLOW_MEAN.0
    }
}
