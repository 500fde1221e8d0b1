//! What a shard counts: plain numbers that it alone writes, merged when somebody asks.
//!
//! Names, units and help of the metrics made of them stand in the telemetry folder. A tenant is never a key here.

use std::collections::BTreeMap;

use super::time::Duration;

/// Counts by a key out of a closed set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally<K: Ord>(BTreeMap<K, u64>);

impl<K: Ord + Copy> Tally<K> {
    /// Counts one more of `key`.
    pub fn count(&mut self, key: K) {
        self.add(key, 1);
    }

    /// Counts `number` more of `key`.
    pub fn add(&mut self, key: K, number: u64) {
        *self.0.entry(key).or_default() += number;
    }

    /// All keys ever counted, in order.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().map(|(key, number)| (*key, *number))
    }

    /// How many of `key`.
    #[must_use]
    pub fn of(&self, key: K) -> u64 {
        self.0.get(&key).copied().unwrap_or(0)
    }

    fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(key, number)| self.add(key, number));
    }
}

/// The upper bounds, in milliseconds, of the buckets that [`Latencies`] counts in; one more holds the rest.
pub const LATENCY_BOUNDS_MS: [u64; 14] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000];

/// Durations, counted in buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// One per bound, and one for what is longer than all; not cumulative.
    pub buckets: [u64; LATENCY_BOUNDS_MS.len() + 1],
    /// All of them together.
    pub sum: Duration,
}

impl Latencies {
    /// Counts one duration.
    pub fn observe(&mut self, span: Duration) {
        let bucket = LATENCY_BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < span);
        self.buckets[bucket] += 1;
        self.sum = self.sum + span;
    }

    /// How many were counted.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.sum = self.sum + other.sum;
    }
}

/// What only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events stored.
    pub events_accepted: u64,
    /// Events that were stored before.
    pub events_duplicate: u64,
    /// Records that are no events, by reason: `system_event`, `tombstone`.
    pub events_dropped: Tally<&'static str>,
    /// Malformed records, by the quarantine reasons of the contract.
    pub events_quarantined: Tally<&'static str>,
    /// Accepted events that no subscription wanted.
    pub events_without_subscription: u64,
    /// Bytes looked at to decide on filters.
    pub filter_work_bytes: u64,
    /// Jobs made, by trigger.
    pub jobs_made: Tally<&'static str>,
    /// Jobs ended, by end and reason; the reason is empty unless dead-lettered.
    pub jobs_ended: Tally<(&'static str, &'static str)>,
    /// Attempts ended, by result: `delivered` or an error kind.
    pub attempts: Tally<&'static str>,
    /// How long attempts took.
    pub attempt_latencies: Latencies,
    /// From an event's arrival to its job's 2xx.
    pub delivery_latencies: Latencies,
    /// Attempts that were scheduled again.
    pub retries: u64,
    /// Arrivals turned away since the shard was full or draining.
    pub arrivals_refused: u64,
    /// Jobs left to the log, behind a cursor or a due row, since memory is bounded.
    pub jobs_spilled: u64,
    /// Jobs and cursors of the log whose subscription is neither known nor known to be deleted.
    pub jobs_orphaned: u64,
    /// Stored configuration that can't be used.
    pub configuration_faults: u64,
    /// Claims found open after a crash.
    pub reclaims: u64,
    /// Circuits that opened.
    pub circuits_opened: u64,
    /// Subscriptions that the hub disabled, by reason.
    pub subscriptions_disabled: Tally<&'static str>,
    /// Stored schedules that are malformed, met at use.
    pub schedules_malformed: u64,
    /// Kafka records that were lost to retention before they were read.
    pub records_skipped: u64,
    /// Batches that became durable.
    pub commit_batches: u64,
    /// Rows in them.
    pub commit_rows: u64,
    /// Batches that the store refused.
    pub commit_refusals: u64,
    /// Answers to ingest requests, by status.
    pub ingest_responses: Tally<u16>,
    /// Answers to API requests, by status.
    pub api_responses: Tally<u16>,
    /// Configuration changes applied.
    pub configuration_changes: u64,
    /// Errors that the Kafka client reported.
    pub kafka_errors: u64,
    /// Rebalances of the Kafka group.
    pub kafka_rebalances: u64,
}

impl Counters {
    /// Adds another shard's counts.
    pub fn merge(&mut self, other: &Self) {
        self.events_accepted += other.events_accepted;
        self.events_duplicate += other.events_duplicate;
        self.events_dropped.merge(&other.events_dropped);
        self.events_quarantined.merge(&other.events_quarantined);
        self.events_without_subscription += other.events_without_subscription;
        self.filter_work_bytes += other.filter_work_bytes;
        self.jobs_made.merge(&other.jobs_made);
        self.jobs_ended.merge(&other.jobs_ended);
        self.attempts.merge(&other.attempts);
        self.attempt_latencies.merge(&other.attempt_latencies);
        self.delivery_latencies.merge(&other.delivery_latencies);
        self.retries += other.retries;
        self.arrivals_refused += other.arrivals_refused;
        self.jobs_spilled += other.jobs_spilled;
        self.jobs_orphaned += other.jobs_orphaned;
        self.configuration_faults += other.configuration_faults;
        self.reclaims += other.reclaims;
        self.circuits_opened += other.circuits_opened;
        self.subscriptions_disabled.merge(&other.subscriptions_disabled);
        self.schedules_malformed += other.schedules_malformed;
        self.records_skipped += other.records_skipped;
        self.commit_batches += other.commit_batches;
        self.commit_rows += other.commit_rows;
        self.commit_refusals += other.commit_refusals;
        self.ingest_responses.merge(&other.ingest_responses);
        self.api_responses.merge(&other.api_responses);
        self.configuration_changes += other.configuration_changes;
        self.kafka_errors += other.kafka_errors;
        self.kafka_rebalances += other.kafka_rebalances;
    }
}

/// What a process's store counts, for all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Syncs to this machine's disk.
    pub fsyncs: u64,
    /// What was sent to a CQL cluster.
    pub cql: CqlCounters,
}

/// Requests sent to a CQL cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CqlCounters {
    /// Writes of one partition.
    pub writes: u64,
    /// Rows in them.
    pub rows: u64,
    /// Pages read.
    pub reads: u64,
    /// Conditional writes.
    pub conditional: u64,
}

/// What goes up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Jobs waiting in memory.
    pub jobs_waiting: u64,
    /// Attempts in flight.
    pub attempts_in_flight: u64,
    /// Circuits that are not closed.
    pub circuits_open: u64,
    /// Subscriptions with jobs that wait in the log.
    pub subscriptions_overflowing: u64,
    /// Bytes of events held in memory.
    pub event_bytes: u64,
    /// Ids held in memory.
    pub dedup_entries: u64,
}

impl Levels {
    /// Adds another shard's levels.
    pub fn merge(&mut self, other: &Self) {
        self.jobs_waiting += other.jobs_waiting;
        self.attempts_in_flight += other.attempts_in_flight;
        self.circuits_open += other.circuits_open;
        self.subscriptions_overflowing += other.subscriptions_overflowing;
        self.event_bytes += other.event_bytes;
        self.dedup_entries += other.dedup_entries;
    }
}

/// How one lane stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneLevel {
    /// Its name, as the API shows it.
    pub lane: String,
    /// Records between its position and the end of its input.
    pub lag: u64,
    /// Reading is paused.
    pub paused: bool,
    /// It has records and makes no progress.
    pub stalled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_the_bucket_whose_bound_they_do_not_exceed() {
        let mut latencies = Latencies::default();
        latencies.observe(Duration::from_millis(1));
        latencies.observe(Duration::from_micros(1_001));
        latencies.observe(Duration::from_secs(61));
        assert_eq!(latencies.buckets[..2], [1, 1]);
        assert_eq!(latencies.buckets[LATENCY_BOUNDS_MS.len()], 1);
        assert_eq!(latencies.number(), 3);
    }

    #[test]
    fn merging_adds() {
        let mut one = Counters { events_accepted: 2, ..Counters::default() };
        one.attempts.count("delivered");
        let other = one.clone();
        one.merge(&other);
        assert_eq!((one.events_accepted, one.attempts.of("delivered"), one.attempts.of("timeout")), (4, 2, 0));
    }
}
