//! The consumers against librdkafka's own mock brokers.

use std::time::Duration as StdDuration;

use rdkafka::ClientConfig;
use rdkafka::Timestamp;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::*;
use crate::source::decode::{DecodeRules, Decoded, decode};
use crate::source::topic::{Followed, Topics};
use crate::types::{Duration, Time};

const TOPIC: &str = "lerian.streaming.loans";
const WAIT: StdDuration = StdDuration::from_secs(60);
/// Between two looks: a test that spins takes the brokers' threads the processor.
const TURN: StdDuration = StdDuration::from_millis(2);

struct Rig {
    cluster: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer,
}

/// A running consumer with one shard, which is the test.
struct Shard {
    consumer: KafkaConsumer,
    events: flume::Receiver<KafkaEvent>,
    alarms: flume::Receiver<KafkaAlarm>,
}

fn clock() -> Time {
    Time::from_millis(Timestamp::now().to_millis().unwrap_or_default().unsigned_abs())
}

impl Rig {
    fn new(topic: &str) -> Self {
        let cluster = MockCluster::new(1).expect("a mock cluster");
        cluster.create_topic(topic, 1, 1).expect("a topic");
        let producer =
            ClientConfig::new().set("bootstrap.servers", cluster.bootstrap_servers()).create().expect("a producer");
        Self { cluster, producer }
    }

    fn produce(&self, topic: &str, headers: &[(&str, &str)], count: usize) {
        for number in 0..count {
            let mut owned = OwnedHeaders::new();
            for (key, value) in headers {
                owned = owned.insert(Header { key, value: Some(*value) });
            }
            let payload = number.to_string();
            let record = BaseRecord::<(), _>::to(topic).partition(0).headers(owned).payload(&payload);
            self.producer.send(record).expect("a queued record");
        }
        self.producer.flush(WAIT).expect("all delivered");
    }

    fn settings(&self) -> KafkaSettings {
        KafkaSettings {
            brokers: self.cluster.bootstrap_servers(),
            group: "streaming-hub".to_owned(),
            followed: Followed::Events(Topics::new("lerian.streaming")),
            membership: Membership::One,
            group_setting: "kafka.group",
            hub_id: "hub-1".to_owned(),
            take_over: None,
            tls: None,
            scram: None,
            prefetch_bytes: 1024 * 1024,
            expected_partitions: 8,
            member_list: MemberList::Untold,
            assignment: Assignment::Range,
            // The mock group waits this long for a member that has left.
            session_timeout: Duration::from_secs(6),
        }
    }

    fn shard(&self, stored: Option<u64>) -> Shard {
        Self::shard_with(self.settings(), stored)
    }

    fn shard_with(settings: KafkaSettings, stored: Option<u64>) -> Shard {
        let (shard, events) = flume::bounded(16);
        let (alarm, alarms) = flume::bounded(64);
        let links = Links { shards: vec![shard], alarms: alarm, stored: Some(Box::new(move |_| Ok(stored))), clock };
        Shard { consumer: KafkaConsumer::start(settings, links).expect("a consumer"), events, alarms }
    }
}

impl Shard {
    fn assigned(&self) -> AssignedLane {
        match self.events.recv_timeout(WAIT).expect("an event") {
            KafkaEvent::Assigned(assigned) => assigned,
            other @ (KafkaEvent::Revoked { .. } | KafkaEvent::Lease(_)) => panic!("{other:?}"),
        }
    }

    fn release(&self, assigned: AssignedLane) {
        release(&self.events, assigned);
    }

    /// Answers the revocation that closing brings, and closes.
    fn close(self, assigned: AssignedLane) {
        let closing = self.consumer.begin_close();
        release(&self.events, assigned);
        assert!(closing.wait(Duration::from_secs(60)), "closed in time");
    }
}

fn polled(lane: &mut AssignedLane) -> Option<Polled<Decoded>> {
    lane.reader.poll(|record| decode(record, &DecodeRules::default(), clock()))
}

/// Polls `count` records; between two of them the reader is woken or has more.
fn read(lane: &mut AssignedLane, count: usize) -> Vec<(u64, Decoded)> {
    let (wake, woken) = flume::bounded(1);
    lane.reader.set_wake(move || {
        let _woken_once_is_enough = wake.try_send(());
    });
    let mut records = Vec::new();
    while records.len() < count {
        match polled(lane) {
            Some(Polled::Record(offset, decoded)) => records.push((offset, decoded)),
            Some(Polled::Fault(error)) => panic!("{error}"),
            None => woken.recv_timeout(WAIT).expect("woken"),
        }
    }
    records
}

/// Answers the revocation of `assigned`.
fn release(events: &flume::Receiver<KafkaEvent>, assigned: AssignedLane) {
    match events.recv_timeout(WAIT).expect("an event") {
        KafkaEvent::Revoked { lane, acknowledge } => {
            assert_eq!(lane, assigned.lane);
            drop(assigned);
            acknowledge.send(lane).expect("the consumer waits");
        }
        other @ (KafkaEvent::Assigned(_) | KafkaEvent::Lease(_)) => panic!("{other:?}"),
    }
}

/// Lets the other threads run until `holds`.
fn await_that(mut holds: impl FnMut() -> bool) {
    let deadline = clock() + Duration::from_secs(60);
    while !holds() {
        assert!(clock() < deadline, "in vain");
        std::thread::park_timeout(TURN);
    }
}

fn good_headers() -> [(&'static str, &'static str); 9] {
    [
        ("ce-specversion", "1.0"),
        ("ce-id", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
        ("ce-source", "loans"),
        ("ce-type", "studio.lerian.loans.loan.approved"),
        ("ce-time", "2026-01-01T00:00:00Z"),
        ("ce-schemaversion", "1"),
        ("ce-resourcetype", "loan"),
        ("ce-eventtype", "approved"),
        ("ce-tenantid", "tenant-1"),
    ]
}

#[test]
fn records_are_read_judged_and_committed_up_to_the_watermark_only() {
    let rig = Rig::new(TOPIC);
    rig.produce(TOPIC, &good_headers(), 3);
    rig.produce(TOPIC, &[], 1);
    let shard = rig.shard(None);
    let mut lane = shard.assigned();
    assert_eq!((lane.position, &lane.name), (0, &LaneName::kafka(TOPIC, 0)));
    let records = read(&mut lane, 4);
    assert_eq!(records.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(matches!(&records[2].1, Decoded::Accept(event) if &*event.payload == b"2"));
    assert!(matches!(&records[3].1, Decoded::Quarantine(record) if record.reason == "missing_header"));
    lane.watermark.advance(3);
    shard.close(lane);
    let again = rig.shard(None);
    let lane = again.assigned();
    assert_eq!(lane.position, 3);
    let alarm = again.alarms.recv_timeout(WAIT);
    assert_eq!(alarm, Ok(KafkaAlarm::OnePositionKnown { lane: lane.name.clone(), position: 3 }));
    again.close(lane);
}

#[test]
fn a_header_name_that_is_no_utf8_is_judged_like_any_other() {
    let rig = Rig::new(TOPIC);
    let name = vec![b'c', b'e', b'-', 0xff];
    // SAFETY: the producer passes the name on as pointer and length; nobody reads it as text.
    let name = unsafe { std::str::from_utf8_unchecked(&name) };
    let mut headers = good_headers().to_vec();
    headers.push((name, "x"));
    rig.produce(TOPIC, &headers, 1);
    rig.produce(TOPIC, &headers[1..], 1);
    let shard = rig.shard(Some(0));
    let mut lane = shard.assigned();
    let records = read(&mut lane, 2);
    assert!(matches!(&records[0].1, Decoded::Accept(_)));
    match &records[1].1 {
        Decoded::Quarantine(record) => assert_eq!(record.headers.last().map(|(name, _)| &**name), Some("ce-\u{fffd}")),
        other @ (Decoded::Accept(_) | Decoded::Drop(_)) => panic!("{other:?}"),
    }
    shard.close(lane);
}

#[test]
fn a_lane_not_polled_for_a_while_has_no_hole() {
    let rig = Rig::new(TOPIC);
    let shard = rig.shard(Some(0));
    let mut lane = shard.assigned();
    let mut offsets = Vec::new();
    for _ in 0..100 {
        rig.produce(TOPIC, &good_headers(), 20);
        offsets.extend(read(&mut lane, 20).into_iter().map(|(offset, _)| offset));
    }
    assert_eq!(offsets, (0..2_000).collect::<Vec<_>>());
    shard.close(lane);
}

#[test]
fn a_failed_commit_is_made_again_without_new_records() {
    let rig = Rig::new(TOPIC);
    rig.produce(TOPIC, &good_headers(), 2);
    let shard = rig.shard(Some(0));
    let mut lane = shard.assigned();
    read(&mut lane, 2);
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED];
    rig.cluster.request_errors(RDKafkaApiKey::OffsetCommit, &refused);
    lane.watermark.advance(2);
    let is_commit = |alarm: &KafkaAlarm| matches!(alarm, KafkaAlarm::Retrying { step: "commit", .. });
    while !is_commit(&shard.alarms.recv_timeout(WAIT).expect("the refusal is alarmed")) {}
    await_that(|| lane.watermark.committed() == Some(2));
    assert_eq!(lane.watermark.lag(), Some(0));
    shard.close(lane);
    let again = rig.shard(Some(5));
    let lane = again.assigned();
    assert_eq!(lane.position, 2, "the smaller of committed and stored");
    again.close(lane);
}

#[test]
fn a_position_out_of_range_goes_on_at_the_nearest_record() {
    let rig = Rig::new(TOPIC);
    rig.produce(TOPIC, &good_headers(), 4);
    let shard = rig.shard(Some(1_000));
    let mut lane = shard.assigned();
    assert_eq!(lane.position, 3);
    assert_eq!(read(&mut lane, 1)[0].0, 3);
    let gap = KafkaAlarm::Gap { lane: lane.name.clone(), expected: 1_000, resumed: 3 };
    assert!(shard.alarms.try_iter().any(|alarm| alarm == gap));
    shard.close(lane);
}

#[test]
fn a_lane_that_falls_out_of_range_begins_again_from_its_watermark() {
    let rig = Rig::new(TOPIC);
    // From version 7 on an injected error concerns the whole response, not its partitions.
    rig.cluster.apiversion(RDKafkaApiKey::Fetch, Some(4), Some(6)).expect("a known request");
    rig.produce(TOPIC, &good_headers(), 4);
    let shard = rig.shard(None);
    let mut lane = shard.assigned();
    read(&mut lane, 4);
    lane.watermark.advance(3);
    // The client ignores an error that answers a fetch it has given up meanwhile, so there is always one to come.
    await_that(|| {
        rig.cluster.clear_request_errors(RDKafkaApiKey::Fetch);
        rig.cluster.request_errors(RDKafkaApiKey::Fetch, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE]);
        matches!(polled(&mut lane), Some(Polled::Fault(_)))
    });
    rig.cluster.clear_request_errors(RDKafkaApiKey::Fetch);
    let first = lane.lane;
    shard.release(lane);
    let mut lane = shard.assigned();
    assert_ne!(lane.lane, first);
    assert_eq!((lane.position, read(&mut lane, 1)[0].0), (3, 3));
    shard.close(lane);
}

#[test]
fn a_fatal_error_makes_a_new_client() {
    let rig = Rig::new(TOPIC);
    rig.produce(TOPIC, &good_headers(), 2);
    let shard = rig.shard(Some(0));
    let mut lane = shard.assigned();
    read(&mut lane, 2);
    rig.cluster.request_errors(RDKafkaApiKey::Heartbeat, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID]);
    shard.release(lane);
    assert!(shard.alarms.try_iter().any(|alarm| matches!(alarm, KafkaAlarm::Rebuilding { .. })));
    let mut lane = shard.assigned();
    assert_eq!(read(&mut lane, 2).len(), 2, "what was not durable is read again");
    shard.close(lane);
}

#[test]
fn partitions_move_when_another_process_joins() {
    let topic = "lerian.streaming.cards";
    let rig = Rig::new(TOPIC);
    rig.cluster.create_topic(topic, 2, 1).expect("a topic");
    let shards = [rig.shard(Some(0)), rig.shard(Some(0))];
    let mut held: [Vec<AssignedLane>; 2] = [Vec::new(), Vec::new()];
    await_that(|| {
        for (shard, lanes) in shards.iter().zip(&mut held) {
            shard.events.try_iter().for_each(|event| follow(lanes, event));
        }
        held.iter().all(|lanes| !lanes.is_empty()) && held.iter().map(Vec::len).sum::<usize>() == 3
    });
    let names: std::collections::BTreeSet<_> = held.iter().flatten().map(|lane| &lane.name).collect();
    assert_eq!(names.len(), 3, "each partition has one owner");
}

/// What a shard does with its lanes.
fn follow(lanes: &mut Vec<AssignedLane>, event: KafkaEvent) {
    match event {
        KafkaEvent::Assigned(assigned) => lanes.push(assigned),
        KafkaEvent::Revoked { lane, acknowledge } => {
            lanes.retain(|held| held.lane != lane);
            acknowledge.send(lane).expect("the consumer waits");
        }
        KafkaEvent::Lease(_) => panic!("no slots are held"),
    }
}

#[test]
fn closing_is_bounded_when_the_brokers_are_gone() {
    let rig = Rig::new(TOPIC);
    rig.produce(TOPIC, &good_headers(), 1);
    let shard = rig.shard(Some(0));
    let lane = shard.assigned();
    rig.cluster.broker_down(1).expect("a known broker");
    lane.watermark.advance(1);
    shard.close(lane);
}

#[test]
fn opening_and_closing_many_times_never_hangs() {
    let rig = Rig::new(TOPIC);
    for _ in 0..20 {
        let shard = rig.shard(Some(0));
        assert!(shard.consumer.begin_close().wait(Duration::from_secs(60)));
    }
}

/// Lets hub-1 commit, and stops it.
fn used_by_hub_1(rig: &Rig) {
    rig.produce(TOPIC, &good_headers(), 2);
    let first = rig.shard(Some(0));
    let lane = first.assigned();
    lane.watermark.advance(1);
    first.close(lane);
}

#[test]
fn a_group_of_another_data_directory_is_refused_before_anything_is_read() {
    let rig = Rig::new(TOPIC);
    used_by_hub_1(&rig);
    let settings = KafkaSettings { hub_id: "hub-2".to_owned(), ..rig.settings() };
    let second = Rig::shard_with(settings, None);
    let mut taken = Ok(());
    await_that(|| {
        taken = second.consumer.check();
        taken.is_err()
    });
    let text = taken.expect_err("it was just seen").to_string();
    for part in ["kafka.group", "`streaming-hub`", "hub-1", "hub-2", "kafka.take_over"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(second.consumer.begin_close().wait(Duration::from_secs(60)), "it has ended by itself");
    assert!(second.events.try_iter().next().is_none(), "no lane was begun");
    let first = rig.shard(Some(1));
    let lane = first.assigned();
    assert_eq!(lane.position, 1, "the group is as it was");
    first.close(lane);
}

#[test]
fn a_group_is_taken_over_by_name_and_then_is_the_heirs() {
    let rig = Rig::new(TOPIC);
    used_by_hub_1(&rig);
    let heir = KafkaSettings { hub_id: "hub-2".to_owned(), ..rig.settings() };
    let named = KafkaSettings { take_over: Some("hub-1".to_owned()), ..heir.clone() };
    let second = Rig::shard_with(named, None);
    let lane = second.assigned();
    assert_eq!(lane.position, 1, "where the former one was");
    let taken = KafkaAlarm::TakenOver { lane: lane.name.clone(), hub: "hub-1".to_owned() };
    assert!(second.alarms.try_iter().any(|alarm| alarm == taken));
    // The same position again, under the heir's own id, without a new record coming.
    await_that(|| lane.watermark.committed() == Some(1));
    second.close(lane);
    let again = Rig::shard_with(heir, Some(1));
    let lane = again.assigned();
    again.close(lane);
    assert_eq!(again_refused(&rig), "hub-2");
}

/// Who hub-1 is told has the group now.
fn again_refused(rig: &Rig) -> String {
    let shard = rig.shard(Some(1));
    let mut by = None;
    await_that(|| {
        by = shard.consumer.check().err().map(|taken| taken.by);
        by.is_some()
    });
    match by {
        Some(By::Commits(hub)) => hub,
        other @ (Some(By::Member(_)) | None) => panic!("{other:?}"),
    }
}

#[test]
fn the_tap_reads_dead_letters_and_commits_what_was_stored() {
    let topic = "lerian.streaming.loans.dlq";
    let rig = Rig::new(topic);
    rig.produce(topic, &[("x-lerian-dlq-error-class", "broker"), ("ce-tenantid", "tenant-1")], 3);
    let (alarm, _alarms) = flume::bounded(16);
    let followed = Followed::DeadLetters(Topics::new("lerian.streaming"));
    let settings = KafkaSettings { followed, ..rig.settings() };
    let start = || DeadLetterTap::start(settings.clone(), alarm.clone(), clock).expect("a tap");
    let (tap, letters) = start();
    let first = letters.recv_timeout(WAIT).expect("a letter");
    assert_eq!((first.letter.offset, first.letter.error_class.as_deref()), (0, Some("broker")));
    first.stored();
    assert_eq!(letters.recv_timeout(WAIT).expect("a letter").letter.offset, 1);
    assert!(tap.close(Duration::from_secs(60)));
    let (tap, letters) = start();
    assert_eq!(letters.recv_timeout(WAIT).expect("a letter").letter.offset, 1, "not stored, so read again");
    assert!(tap.close(Duration::from_secs(60)));
}
