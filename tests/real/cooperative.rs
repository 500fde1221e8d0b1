//! A cooperative group: members come and go, only what moves is taken away, and each record is read once. Its members
//! are the hub's consumers alone, since one group has one embedded hub.

use std::collections::{BTreeMap, BTreeSet};

use streaming_hub::runtime::clock::process_time;
use streaming_hub::source::kafka::{
    AssignedLane, Assignment, KafkaConsumer, KafkaEvent, KafkaSettings, Links, MemberList, Membership, Polled,
};
use streaming_hub::source::topic::{Followed, Topics};
use streaming_hub::types::{Duration, LaneName};

use super::broker::{ADDRESS, Broker};
use super::harness::CloudEvent;
use super::patience::patiently;
use super::record::Record;
use super::stage::Stage;

const PARTITIONS: i32 = 8;
const ROUNDS: usize = 20;
const RECORDS: usize = 40;

/// How often each record was read.
type Reads = BTreeMap<(LaneName, u64), usize>;

/// A consumer with its one shard, which reads what comes and counts it as durable at once.
struct Member {
    /// Absent once it leaves.
    consumer: Option<KafkaConsumer>,
    events: flume::Receiver<KafkaEvent>,
    lanes: BTreeMap<LaneName, AssignedLane>,
    revocations: usize,
}

impl Member {
    fn new(stage: &Stage, assignment: Assignment) -> Self {
        let (shard, events) = flume::bounded(64);
        let (alarms, _) = flume::bounded(64);
        let settings = KafkaSettings {
            brokers: ADDRESS.to_owned(),
            group: stage.group(),
            group_setting: "kafka.group",
            followed: Followed::Events(Topics::new(stage.prefix())),
            membership: Membership::One,
            hub_id: "one".to_owned(),
            take_over: None,
            member_list: MemberList::Untold,
            assignment,
            tls: None,
            scram: None,
            prefetch_bytes: 1024 * 1024,
            expected_partitions: 8,
            session_timeout: Duration::from_secs(30),
        };
        let links = Links { shards: vec![shard], alarms, stored: None, clock: process_time };
        let consumer = KafkaConsumer::start(settings, links).expect("a consumer");
        Self { consumer: Some(consumer), events, lanes: BTreeMap::new(), revocations: 0 }
    }

    /// Takes up what the group has decided, and reads what there is.
    fn turn(&mut self, reads: &mut Reads) {
        for event in self.events.try_iter().collect::<Vec<_>>() {
            match event {
                KafkaEvent::Assigned(assigned) => {
                    let former = self.lanes.insert(assigned.name.clone(), assigned);
                    assert!(former.is_none(), "a partition is given that is held already");
                }
                KafkaEvent::Revoked { lane, acknowledge } => {
                    self.lanes.retain(|_, held| held.lane != lane);
                    self.revocations += 1;
                    acknowledge.send(lane).expect("the consumer waits");
                }
                KafkaEvent::Lease(_) => panic!("no slots are held"),
            }
        }
        for (name, lane) in &mut self.lanes {
            while let Some(Polled::Record(offset, _)) = lane.reader.poll(|_| ()) {
                *reads.entry((name.clone(), offset)).or_default() += 1;
                lane.watermark.advance(offset + 1);
            }
        }
    }

    fn names(&self) -> BTreeSet<LaneName> {
        self.lanes.keys().cloned().collect()
    }

    /// Leaves the group; the others are told meanwhile by `beside`.
    fn leave(mut self, reads: &mut Reads, mut beside: impl FnMut(&mut Reads) -> bool) {
        let leaving = self.consumer.take().expect("it has not left yet").begin_close();
        patiently(
            || "a member to leave".to_owned(),
            || {
                self.turn(reads);
                beside(reads) && self.lanes.is_empty()
            },
        );
        assert!(leaving.wait(Duration::from_secs(60)), "closed in time");
    }
}

/// Lets a second member come and go; gives how many lanes were taken from the first on the way, in each round.
fn come_and_go(assignment: Assignment, rounds: usize) -> Vec<usize> {
    let (broker, stage) = (Broker::shared(), Stage::new());
    let topic = stage.topic("cards");
    broker.create_topic(&topic, PARTITIONS);
    let (all, producer) = (usize::try_from(PARTITIONS).expect("few"), broker.producer());
    let produce = || {
        let record = |number: usize| Record::of(&topic, &format!("tenant-{number}"), &CloudEvent::new("card", "paid"));
        producer.send(&(0..RECORDS).map(record).collect::<Vec<_>>());
    };
    let (mut reads, mut taken) = (Reads::new(), Vec::new());
    let mut first = Member::new(&stage, assignment);
    patiently(
        || "all lanes".to_owned(),
        || {
            first.turn(&mut reads);
            first.lanes.len() == all
        },
    );
    for _ in 0..rounds {
        let before = first.revocations;
        let mut second = Member::new(&stage, assignment);
        produce();
        patiently(
            || "half of the lanes to move".to_owned(),
            || {
                first.turn(&mut reads);
                second.turn(&mut reads);
                assert!(first.names().is_disjoint(&second.names()), "a partition has two owners");
                (first.lanes.len(), second.lanes.len()) == (all / 2, all / 2)
            },
        );
        produce();
        second.leave(&mut reads, |reads| {
            first.turn(reads);
            first.lanes.len() == all
        });
        taken.push(first.revocations - before);
    }
    let produced = 2 * rounds * RECORDS;
    patiently(
        || "every record to be read".to_owned(),
        || {
            first.turn(&mut reads);
            reads.len() == produced
        },
    );
    assert!(reads.values().all(|times| *times == 1), "read more than once: {reads:?}");
    first.leave(&mut reads, |_| true);
    taken
}

#[test]
fn members_of_a_cooperative_group_come_and_go_and_only_what_moves_is_taken() {
    let moving = usize::try_from(PARTITIONS / 2).expect("few");
    assert_eq!(come_and_go(Assignment::CooperativeSticky, ROUNDS), vec![moving; ROUNDS]);
}

#[test]
fn members_of_a_ranged_group_come_and_go_and_everything_stops_for_a_moment() {
    let taken = come_and_go(Assignment::Range, 2);
    assert!(taken.iter().all(|count| *count > usize::try_from(PARTITIONS).expect("few")), "{taken:?}");
}
