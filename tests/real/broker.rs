//! The real broker: topics made and looked at, records produced, and its process stopped and started again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer as _};
use rdkafka::{ClientConfig, TopicPartitionList};

use super::harness::CloudEvent;
use super::patience::LONG;
use super::record::Record;
use super::server::{Frozen, Server, Stopped, directory};
use super::stage::tenant_name;

/// Where `tests/real/servers` has it listen.
pub const ADDRESS: &str = "127.0.0.1:19092";

/// The broker itself.
const KAFKA: Server = Server { name: "kafka", address: ADDRESS };

/// Where it listens with TLS and SCRAM.
pub const SECURE_ADDRESS: &str = "127.0.0.1:19094";

/// The user it knows there, and the password.
pub const SCRAM_USER: (&str, &str) = ("hub", "hub-secret");

/// Tests that need the broker share it; one that stops it has it alone.
static USE: RwLock<()> = RwLock::new(());

/// The running broker, for as long as a test holds it.
pub struct Broker<Guard> {
    _held: Guard,
}

impl Broker<RwLockReadGuard<'static, ()>> {
    /// The broker beside other tests.
    pub fn shared() -> Self {
        KAFKA.expect_running();
        Self { _held: USE.read().unwrap_or_else(std::sync::PoisonError::into_inner) }
    }
}

impl Broker<RwLockWriteGuard<'static, ()>> {
    /// The broker for a test that stops it.
    pub fn alone() -> Self {
        KAFKA.expect_running();
        Self { _held: USE.write().unwrap_or_else(std::sync::PoisonError::into_inner) }
    }

    /// Stops its process where it stands, until what this gives is dropped.
    pub fn freeze(&self) -> Frozen {
        KAFKA.freeze()
    }

    /// `kill -9`; gives what starts it again on the same data.
    pub fn kill(&self) -> Stopped {
        KAFKA.kill()
    }
}

impl<Guard> Broker<Guard> {
    /// Makes a topic.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        self.create_topic_with(name, partitions, &[]);
    }

    /// Makes a topic with settings.
    pub fn create_topic_with(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> = config().create().expect("a client");
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let made = futures_lite::future::block_on(admin.create_topics([&topic], &AdminOptions::new()));
        assert!(made.expect("the broker answers").iter().all(Result::is_ok), "{name} was not made");
    }

    /// A producer that keeps the order of what it is given and goes on while the broker is gone.
    pub fn producer(&self) -> Producer {
        let mut config = config();
        config.set("partitioner", "murmur2_random").set("enable.idempotence", "true").set("linger.ms", "5");
        config.set("message.max.bytes", "8000000").set("message.timeout.ms", "240000");
        config.set("queue.buffering.max.messages", "1000000");
        Producer { client: config.create().expect("a client") }
    }

    /// The end of each partition, from 0 on.
    pub fn ends(&self, topic: &str, partitions: i32) -> Vec<i64> {
        let client: BaseConsumer = config().create().expect("a client");
        let end = |partition| client.fetch_watermarks(topic, partition, LONG).expect("the broker answers").1;
        (0..partitions).map(end).collect()
    }

    /// What `group` has committed of each partition, from 0 on; nothing is 0.
    pub fn committed(&self, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
        let client: BaseConsumer = config().set("group.id", group).create().expect("a client");
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions - 1);
        let list = client.committed_offsets(list, LONG).expect("the broker answers");
        list.elements().iter().map(|element| element.offset().to_raw().unwrap_or(0).max(0)).collect()
    }
}

/// Produces records; those of one key keep their order.
pub struct Producer {
    client: BaseProducer,
}

impl Producer {
    /// Takes a record over, as soon as there is room.
    pub fn give(&self, record: &Record) {
        let mut given = self.client.send(record.to_send());
        while let Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) = given {
            self.client.poll(Duration::from_millis(10));
            given = self.client.send(again);
        }
        given.unwrap_or_else(|(error, _)| panic!("{error}"));
        self.client.poll(Duration::ZERO);
    }

    /// Waits until the broker has all that was given.
    pub fn finish(&self) {
        self.client.flush(LONG).expect("the broker takes all");
        assert_eq!(self.client.in_flight_count(), 0);
    }

    /// Gives each of the tenants an event, in order, time and again with `pace` between, until told to stop, whether the
    /// broker is there or not; how many each was given.
    pub fn keep_giving(&self, topic: &str, tenants: u64, pace: Duration, stop: &AtomicBool) -> u64 {
        let mut number = 0;
        while !stop.load(Ordering::SeqCst) {
            for of in 0..tenants {
                let event = CloudEvent::new("loan", "paid").with_data(format!("{{\"number\":{number}}}"));
                self.give(&Record::of(topic, &tenant_name(of), &event));
            }
            number += 1;
            std::thread::sleep(pace);
        }
        self.finish();
        number
    }

    /// Gives all of `records` and waits for the broker.
    pub fn send(&self, records: &[Record]) {
        records.iter().for_each(|record| self.give(record));
        self.finish();
    }
}

/// A certificate authority's file: `ca` signed the broker's certificate, `other-ca` did not.
pub fn authority(name: &str) -> String {
    directory().join(format!("tls/{name}.pem")).display().to_string()
}

fn config() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", ADDRESS);
    config
}
