//! The metrics: the only place with their names, units and help.
//!
//! Shards keep plain numbers ([`Counters`], [`Levels`]); a scrape merges them into a [`Snapshot`] and writes
//! that as Prometheus text. A tenant is never a label; a lane is one, since lanes are few and the operator's own.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use crate::types::counters::{Counters, LATENCY_BOUNDS_MS, LaneLevel, Latencies, Levels, StoreCounters, Tally};

/// The `Content-Type` of [`Snapshot::to_text`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// What every name begins with.
const PREFIX: &str = "streaming_hub";

/// All that is counted, of all shards, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The shards' counters, merged.
    pub counters: Counters,
    /// What the store counts.
    pub store: StoreCounters,
    /// The shards' levels, merged.
    pub levels: Levels,
    /// All lanes of this process.
    pub lanes: Vec<LaneLevel>,
}

impl Snapshot {
    /// The snapshot in Prometheus' text format.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::with_capacity(8 * 1024);
        prometheus_text::encode(&mut text, &registry).expect("writing to a string can't fail");
        text
    }
}

/// A metric as the README lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// As scraped.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// One sentence, with the labels.
    pub help: &'static str,
}

/// Every metric.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    families(&Snapshot::default()).iter().map(Family::description).collect()
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for family in families(self) {
            let encoder = encoder.encode_descriptor(family.name, family.help, None, family.samples.kind())?;
            family.samples.encode(encoder)?;
        }
        Ok(())
    }
}

/// One metric with its samples.
struct Family {
    /// Without prefix and `_total`.
    name: &'static str,
    help: &'static str,
    samples: Samples,
}

/// A label's name and value.
type Label = (&'static str, String);

enum Samples {
    Counter(Vec<(Vec<Label>, u64)>),
    Gauge(Vec<(Vec<Label>, u64)>),
    Histogram(Latencies),
}

impl Family {
    fn description(&self) -> Description {
        let (kind, suffix) = match self.samples {
            Samples::Counter(_) => ("counter", "_total"),
            Samples::Gauge(_) => ("gauge", ""),
            Samples::Histogram(_) => ("histogram", ""),
        };
        Description { name: format!("{PREFIX}_{}{suffix}", self.name), kind, help: self.help }
    }
}

impl Samples {
    const fn kind(&self) -> MetricType {
        match self {
            Self::Counter(_) => MetricType::Counter,
            Self::Gauge(_) => MetricType::Gauge,
            Self::Histogram(_) => MetricType::Histogram,
        }
    }

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(samples) => samples.iter().try_for_each(|(labels, number)| {
                encoder.encode_family(labels)?.encode_counter(number, None::<&Exemplar<NoLabelSet, u64>>)
            }),
            Self::Gauge(samples) => {
                samples.iter().try_for_each(|(labels, number)| encoder.encode_family(labels)?.encode_gauge(number))
            }
            Self::Histogram(latencies) => encode_latencies(&mut encoder, latencies),
        }
    }
}

fn encode_latencies(encoder: &mut MetricEncoder<'_>, latencies: &Latencies) -> fmt::Result {
    let bounds = LATENCY_BOUNDS_MS.iter().map(|ms| *ms as f64 / 1e3).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(latencies.buckets).collect();
    let seconds = latencies.sum.to_std().as_secs_f64();
    encoder.encode_histogram::<NoLabelSet>(seconds, latencies.number(), &buckets, None)
}

/// Every metric, in the order in which it is written.
fn families(snapshot: &Snapshot) -> Vec<Family> {
    let parts =
        [events(&snapshot.counters), jobs(snapshot), store(snapshot), edges(&snapshot.counters), lanes(snapshot)];
    parts.into_iter().flatten().collect()
}

fn events(counters: &Counters) -> Vec<Family> {
    vec![
        counter("events_accepted", "Events stored", counters.events_accepted),
        counter("events_duplicate", "Events that were stored before", counters.events_duplicate),
        by("events_dropped", "Records that are no events, by `reason`", "reason", &counters.events_dropped),
        by("events_quarantined", "Malformed records, by `reason`", "reason", &counters.events_quarantined),
        counter(
            "events_without_subscription",
            "Accepted events that no subscription wanted",
            counters.events_without_subscription,
        ),
        counter("filter_work_bytes", "Bytes looked at to decide on filters", counters.filter_work_bytes),
    ]
}

fn jobs(snapshot: &Snapshot) -> Vec<Family> {
    let (counters, levels) = (&snapshot.counters, &snapshot.levels);
    vec![
        by("jobs_made", "Jobs made, by `trigger`", "trigger", &counters.jobs_made),
        ended(&counters.jobs_ended),
        by("attempts", "Attempts ended, by `result`: `delivered` or an error kind", "result", &counters.attempts),
        histogram("attempt_duration_seconds", "How long attempts took", counters.attempt_latencies),
        histogram("delivery_latency_seconds", "From an event's arrival to the 2xx", counters.delivery_latencies),
        counter("retries", "Attempts scheduled again", counters.retries),
        counter(
            "arrivals_refused",
            "Arrivals turned away since the hub was full or draining",
            counters.arrivals_refused,
        ),
        counter("jobs_spilled", "Jobs left to the log since memory is bounded", counters.jobs_spilled),
        counter("jobs_orphaned", "Jobs whose subscription is neither known nor deleted", counters.jobs_orphaned),
        counter("configuration_faults", "Stored configuration that can't be used", counters.configuration_faults),
        counter("reclaims", "Claims found open after a crash", counters.reclaims),
        counter("circuits_opened", "Circuits that opened", counters.circuits_opened),
        by(
            "subscriptions_disabled",
            "Subscriptions that the hub disabled, by `reason`",
            "reason",
            &counters.subscriptions_disabled,
        ),
        counter("schedules_malformed", "Malformed stored schedules met", counters.schedules_malformed),
        gauge("jobs_waiting", "Jobs waiting in memory", levels.jobs_waiting),
        gauge("attempts_in_flight", "Attempts in flight", levels.attempts_in_flight),
        gauge("circuits_open", "Circuits that are not closed", levels.circuits_open),
        gauge(
            "subscriptions_overflowing",
            "Subscriptions with jobs that wait on disk",
            levels.subscriptions_overflowing,
        ),
        gauge("event_memory_bytes", "Events held in memory", levels.event_bytes),
        gauge("dedup_entries", "Ids held in memory", levels.dedup_entries),
    ]
}

fn store(snapshot: &Snapshot) -> Vec<Family> {
    let (counters, cql) = (&snapshot.counters, snapshot.store.cql);
    let mut requests = Tally::default();
    for (kind, number) in [("write", cql.writes), ("read", cql.reads), ("conditional", cql.conditional)] {
        requests.add(kind, number);
    }
    vec![
        counter("store_commit_batches", "Batches that became durable", counters.commit_batches),
        counter("store_commit_rows", "Rows in them", counters.commit_rows),
        counter("store_commit_refusals", "Batches that the store refused", counters.commit_refusals),
        counter("store_fsyncs", "Syncs of the store to disk", snapshot.store.fsyncs),
        by("cql_requests", "Requests sent to the CQL cluster, by `kind`", "kind", &requests),
        counter("cql_rows", "Rows in the writes among them", cql.rows),
    ]
}

fn edges(counters: &Counters) -> Vec<Family> {
    vec![
        by("http_ingest_responses", "Answers to ingest requests, by `status`", "status", &counters.ingest_responses),
        by("http_api_responses", "Answers to API requests, by `status`", "status", &counters.api_responses),
        counter("configuration_changes", "Configuration changes applied", counters.configuration_changes),
        counter("kafka_errors", "Errors of the Kafka client", counters.kafka_errors),
        counter("kafka_rebalances", "Rebalances of the Kafka group", counters.kafka_rebalances),
        counter("kafka_records_skipped", "Records gone before they were read", counters.records_skipped),
    ]
}

fn lanes(snapshot: &Snapshot) -> Vec<Family> {
    let family = |name, help, level: fn(&LaneLevel) -> u64| {
        let samples = snapshot.lanes.iter().map(|lane| (vec![("lane", lane.lane.clone())], level(lane)));
        Family { name, help, samples: Samples::Gauge(samples.collect()) }
    };
    vec![
        family("lane_lag_records", "Records between a lane's position and its end, by `lane`", |lane| lane.lag),
        family("lane_paused", "1 while a lane is not read, by `lane`", |lane| lane.paused.into()),
        family("lane_stalled", "1 while a lane has records and makes no progress, by `lane`", |lane| {
            lane.stalled.into()
        }),
    ]
}

const NO_LABELS: Vec<Label> = Vec::new();

fn counter(name: &'static str, help: &'static str, number: u64) -> Family {
    Family { name, help, samples: Samples::Counter(vec![(NO_LABELS, number)]) }
}

fn gauge(name: &'static str, help: &'static str, number: u64) -> Family {
    Family { name, help, samples: Samples::Gauge(vec![(NO_LABELS, number)]) }
}

fn histogram(name: &'static str, help: &'static str, latencies: Latencies) -> Family {
    Family { name, help, samples: Samples::Histogram(latencies) }
}

fn by<K: Ord + Copy + ToString>(
    name: &'static str,
    help: &'static str,
    label: &'static str,
    tally: &Tally<K>,
) -> Family {
    let samples = tally.iter().map(|(key, number)| (vec![(label, key.to_string())], number));
    Family { name, help, samples: Samples::Counter(samples.collect()) }
}

fn ended(tally: &Tally<(&'static str, &'static str)>) -> Family {
    let labels = |(end, reason): (&str, &str)| vec![("end", end.to_owned()), ("reason", reason.to_owned())];
    let samples = tally.iter().map(|(key, number)| (labels(key), number)).collect();
    Family { name: "jobs_ended", help: "Jobs ended, by `end` and `reason`", samples: Samples::Counter(samples) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Duration;

    #[test]
    fn a_snapshot_is_prometheus_text() {
        let mut snapshot = Snapshot::default();
        snapshot.counters.events_accepted = 3;
        snapshot.counters.events_quarantined.count("bad_id");
        snapshot.counters.jobs_ended.count(("dead_lettered", "exhausted"));
        snapshot.counters.ingest_responses.count(503);
        snapshot.counters.attempt_latencies.observe(Duration::from_millis(3));
        snapshot.lanes.push(LaneLevel { lane: "a\"b-0".to_owned(), lag: 7, paused: true, stalled: false });
        let text = snapshot.to_text();
        for line in [
            "# TYPE streaming_hub_events_accepted_total counter",
            "streaming_hub_events_accepted_total 3",
            "streaming_hub_events_quarantined_total{reason=\"bad_id\"} 1",
            "streaming_hub_jobs_ended_total{end=\"dead_lettered\",reason=\"exhausted\"} 1",
            "streaming_hub_http_ingest_responses_total{status=\"503\"} 1",
            "streaming_hub_attempt_duration_seconds_bucket{le=\"0.002\"} 0",
            "streaming_hub_attempt_duration_seconds_bucket{le=\"0.005\"} 1",
            "streaming_hub_attempt_duration_seconds_bucket{le=\"+Inf\"} 1",
            "streaming_hub_attempt_duration_seconds_sum 0.003",
            "streaming_hub_lane_lag_records{lane=\"a\\\"b-0\"} 7",
            "streaming_hub_lane_paused{lane=\"a\\\"b-0\"} 1",
            "streaming_hub_circuits_open 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn names_are_unique_and_those_that_are_written() {
        let (names, text) = (descriptions().into_iter().map(|d| d.name), Snapshot::default().to_text());
        let names: Vec<String> = names.collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name} stands twice");
            assert!(text.contains(&format!("# TYPE {name} ")), "{name} is not written");
        }
    }
}
