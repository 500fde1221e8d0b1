//! A Kafka record of 1 KiB to an accepted event. Budget: 0.5 µs with the verdict.

use std::hint::black_box;

use criterion::Criterion;
use streaming_hub::source::{DecodeRules, Decoded, RawRecord, decode};
use streaming_hub::types::LaneName;

use super::common::{NOW, payload};

const HEADERS: [(&[u8], Option<&[u8]>); 11] = [
    (b"ce-specversion", Some(b"1.0")),
    (b"ce-id", Some(b"018bcfe5-6800-7abc-8def-0123456789ab")),
    (b"ce-source", Some(b"loans")),
    (b"ce-type", Some(b"studio.lerian.loans.loan.approved")),
    (b"ce-time", Some(b"2023-11-14T22:13:20Z")),
    (b"ce-schemaversion", Some(b"1.0.0")),
    (b"ce-resourcetype", Some(b"loan")),
    (b"ce-eventtype", Some(b"approved")),
    (b"ce-tenantid", Some(b"tenant-1")),
    (b"ce-datacontenttype", Some(b"application/json")),
    (b"traceparent", Some(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")),
];

pub fn bench(criterion: &mut Criterion) {
    let lane = LaneName::kafka("lerian.streaming.loans", 0);
    let body = payload(1_024);
    let record = RawRecord {
        lane: &lane,
        topic: "lerian.streaming.loans",
        partition: 0,
        offset: 7,
        headers: &HEADERS,
        key: None,
        payload: Some(&body),
    };
    let rules = DecodeRules::default();
    assert!(matches!(decode(&record, &rules, NOW), Decoded::Accept(_)), "the sample is well formed");
    criterion.bench_function("decode/accept_1KiB", |bencher| {
        bencher.iter(|| decode(black_box(&record), &rules, NOW));
    });
    let malformed = RawRecord { headers: &HEADERS[1..], ..record };
    criterion.bench_function("decode/quarantine_1KiB", |bencher| {
        bencher.iter(|| decode(black_box(&malformed), &rules, NOW));
    });
}
