//! Publishing to a topic: a producer that keeps the order of each tenant's events.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use streaming_hub::runtime::Clock;

use super::{EventMaker, Order, Outcome, Published};
use crate::failure::Failure;
use crate::feed::{Feed, Next, Ticket};
use crate::measure::latency;

/// How often a closed loop looks whether something was delivered.
const FULL_PAUSE: Duration = Duration::from_micros(200);
/// The longest sleep, so that a stop is noticed and acknowledgements are taken.
const NAP: Duration = Duration::from_millis(5);
/// How long the broker may take for all that was given to it.
const FLUSH_PATIENCE: Duration = Duration::from_secs(60);

/// Where to.
pub struct Target {
    pub brokers: String,
    pub topic: String,
    /// The tenants' ids by number.
    pub tenants: Arc<Vec<String>>,
}

/// Takes acknowledgements, in the thread that polls.
struct Acknowledgements {
    clock: Clock,
    taken: std::sync::Mutex<RefCell<Outcome>>,
    published: Arc<Published>,
}

impl ClientContext for Acknowledgements {}

impl ProducerContext for Acknowledgements {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let taken = self.taken.lock().expect("no holder panics");
        let mut outcome = taken.borrow_mut();
        match result {
            Ok(_) => {
                latency::record(&mut outcome.acknowledgement, self.clock.now().since(ticket.intended));
                self.published.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                outcome.unacknowledged.push(*ticket);
                self.published.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Publishes all of it.
pub fn publish(
    order: &Order,
    target: &Target,
    clock: Clock,
    published: &Arc<Published>,
    delivered: &AtomicU64,
) -> Result<Outcome, Failure> {
    let acknowledgements = Acknowledgements {
        clock,
        taken: std::sync::Mutex::new(RefCell::new(Outcome::new())),
        published: Arc::clone(published),
    };
    let producer: BaseProducer<Acknowledgements> = config(&target.brokers).create_with_context(acknowledgements)?;
    let mut feed = Feed::new(order.plan.routes.len(), order.spread, order.pace, order.begin, order.end);
    let mut lateness = latency::histogram();
    while !published.is_stopped() {
        let now = clock.now();
        match feed.next(now, delivered.load(Ordering::Relaxed)) {
            Next::Now(ticket) => {
                give(&producer, target, order, &ticket)?;
                published.issued.fetch_add(1, Ordering::Relaxed);
                latency::record(&mut lateness, now.since(ticket.intended));
            }
            Next::At(at) => nap(&producer, clock.until(at).min(NAP)),
            Next::Full => nap(&producer, FULL_PAUSE),
            Next::Over => break,
        }
        producer.poll(Duration::ZERO);
    }
    producer.flush(FLUSH_PATIENCE)?;
    let taken = producer.context().taken.lock().expect("no holder panics").replace(Outcome::new());
    Ok(Outcome { issued: feed.into_issued(), lateness, ..taken })
}

/// Sleeps on this thread: finer than the client's own wait, which counts milliseconds.
fn nap(producer: &BaseProducer<Acknowledgements>, span: Duration) {
    producer.poll(Duration::ZERO);
    std::thread::sleep(span);
}

fn give(
    producer: &BaseProducer<Acknowledgements>,
    target: &Target,
    order: &Order,
    ticket: &Ticket,
) -> Result<(), Failure> {
    let tenant = &target.tenants[order.plan.tenant_of(ticket.route)];
    let mut payload = Vec::new();
    order.maker.write_payload(&mut payload, ticket);
    let record = BaseRecord::with_opaque_to(&target.topic, Box::new(*ticket))
        .key(tenant.as_str())
        .payload(payload.as_slice())
        .headers(headers(&order.maker, tenant, ticket));
    let mut given = producer.send(record);
    while let Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) = given {
        producer.poll(Duration::from_millis(10));
        given = producer.send(again);
    }
    given.map_err(|(error, _)| error.into())
}

fn headers(maker: &EventMaker, tenant: &str, ticket: &Ticket) -> OwnedHeaders {
    let attributes = maker.attributes(ticket);
    let named = attributes.iter().map(|(name, value)| (format!("ce-{name}"), value.as_str()));
    let more = [("ce-tenantid".to_owned(), tenant), ("content-type".to_owned(), "application/json")];
    named.chain(more).fold(OwnedHeaders::new_with_capacity(10), |headers, (key, value)| {
        headers.insert(Header { key: &key, value: Some(value) })
    })
}

fn config(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config.set("partitioner", "murmur2_random").set("enable.idempotence", "true");
    // Half a millisecond: batches under load, hardly a delay without.
    config.set("linger.ms", "0.5").set("message.timeout.ms", "60000");
    config.set("queue.buffering.max.messages", "100000").set("message.max.bytes", "8000000");
    config
}
