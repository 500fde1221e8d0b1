//! `publish`: sends a sample CloudEvent to a hub, over HTTP or Kafka, in binary mode.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::{ArgGroup, Args};
use percent_encoding::utf8_percent_encode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message as _};
use url::Url;

use super::sample::{EventArguments, SampleEvent};
use super::{CommandError, Surroundings, http_client};
use crate::deliver::headers::CE_VALUE;

/// How long Kafka may take.
const KAFKA_PATIENCE: Duration = Duration::from_secs(10);

/// The command's arguments.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").args(["url", "kafka"]).required(true))]
pub struct Arguments {
    /// The ingest URL of an HTTP source, `http://<hub>/v1/ingest/<source_id>`
    #[arg(long, value_parser = http_client::parse_url)]
    url: Option<Url>,
    /// Kafka brokers, `host:port` separated by commas
    #[arg(long, value_name = "BROKERS", requires = "tenant")]
    kafka: Option<String>,
    /// The topic; `lerian.streaming.<source>` when absent
    #[arg(long, requires = "kafka")]
    topic: Option<String>,
    #[command(flatten)]
    event: EventArguments,
}

/// Sends the event and says what came back.
///
/// # Errors
/// [`CommandError::Failed`] when it was not accepted.
pub fn run(arguments: &Arguments, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    let event = SampleEvent::make(&arguments.event, surroundings)?;
    let said = match (&arguments.url, &arguments.kafka) {
        (Some(url), _) => over_http(url, &event),
        (None, brokers) => {
            let topic =
                arguments.topic.clone().unwrap_or_else(|| format!("lerian.streaming.{}", arguments.event.source));
            over_kafka(brokers.as_deref().unwrap_or_default(), &topic, arguments.event.tenant.as_deref(), &event)
        }
    };
    writeln!(surroundings.output, "{}", said.map_err(CommandError::Failed)?)?;
    Ok(())
}

fn over_http(url: &Url, event: &SampleEvent) -> Result<String, String> {
    let headers: Vec<(&str, String)> =
        event.headers.iter().map(|(name, value)| (*name, http_value(name, value))).collect();
    let answer = http_client::post(url, &headers, &event.data)?;
    let said = format!("{} {}", answer.status, answer.body);
    if (200..300).contains(&answer.status) { Ok(said) } else { Err(format!("not accepted: {said}")) }
}

/// Attributes are percent-encoded (CloudEvents HTTP binding, section 3.1.3.2); the content type is not.
fn http_value(name: &str, value: &str) -> String {
    if name.starts_with("ce-") { utf8_percent_encode(value, CE_VALUE).to_string() } else { value.to_owned() }
}

/// Keyed by tenant, as producers do, so that a tenant's events keep their order.
fn over_kafka(brokers: &str, topic: &str, tenant: Option<&str>, event: &SampleEvent) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("Kafka: {error}");
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", brokers);
    settings.set("message.timeout.ms", KAFKA_PATIENCE.as_millis().to_string());
    let producer: BaseProducer<Receipt> =
        settings.create_with_context(Receipt::default()).map_err(|error| failed(&error))?;
    let headers = event
        .headers
        .iter()
        .fold(OwnedHeaders::new(), |headers, (name, value)| headers.insert(Header { key: name, value: Some(value) }));
    let record = BaseRecord::to(topic).key(tenant.unwrap_or_default()).payload(&event.data).headers(headers);
    producer.send(record).map_err(|(error, _)| failed(&error))?;
    let silence = || format!("{brokers} did not acknowledge within {} s", KAFKA_PATIENCE.as_secs());
    producer.flush(KAFKA_PATIENCE).map_err(|_| failed(&silence()))?;
    let place = producer.context().take().unwrap_or_else(|| Err(silence()));
    place.map(|place| format!("{} at {place}", event.id)).map_err(|error| failed(&error))
}

/// What the broker said of the one record: its place, or why it has none.
#[derive(Default)]
struct Receipt(Mutex<Option<Result<String, String>>>);

impl Receipt {
    fn take(&self) -> Option<Result<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Receipt {}

impl ProducerContext for Receipt {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let said = match result {
            Ok(record) => Ok(format!("{}-{}@{}", record.topic(), record.partition(), record.offset())),
            Err((error, _)) => Err(error.to_string()),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use rdkafka::mocking::MockCluster;

    use crate::cli::tests::ran;
    use crate::cli::{DONE, FAILED, MISUSED};

    /// Answers one request with `answer`; gives the URL, and the request's text once it was answered.
    fn hub(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1/ingest/src_1?a=b", listener.local_addr().expect("an address"));
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"{\"n\":1}") {
                let length = stream.read(&mut piece).expect("a request");
                assert_ne!(length, 0, "the request ended early");
                request.extend_from_slice(&piece[..length]);
            }
            stream.write_all(answer.as_bytes()).expect("an answer");
            String::from_utf8(request).expect("UTF-8")
        });
        (url, answering)
    }

    #[test]
    fn an_event_goes_out_in_binary_mode() {
        let (url, request) = hub("HTTP/1.1 200 OK\r\n\r\n{\"event_id\":\"x\"}");
        let id = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
        let arguments = ["publish", "--url", &url, "--id", id, "--subject", "a b", "--data", "{\"n\":1}"];
        let (code, output, errors) = ran(&arguments, &[], b"");
        assert_eq!((code, output.as_str(), errors.as_str()), (DONE, "200 {\"event_id\":\"x\"}\n", ""));
        let request = request.join().expect("a request");
        assert!(request.starts_with("POST /v1/ingest/src_1?a=b HTTP/1.1\r\nhost: 127.0.0.1:"), "{request}");
        for line in [
            "ce-specversion: 1.0",
            "ce-id: 017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
            "ce-type: studio.lerian.sample.sample.created",
            "ce-resourcetype: sample",
            "ce-eventtype: created",
            "ce-subject: a%20b",
            "content-type: application/json",
        ] {
            assert!(request.contains(&format!("\r\n{line}\r\n")), "{line} is missing in\n{request}");
        }
        assert!(!request.contains("ce-tenantid"), "{request}");
    }

    #[test]
    fn a_refusal_is_a_failure() {
        let (url, request) = hub("HTTP/1.1 404 Not Found\r\n\r\nunknown");
        let (code, _, errors) = ran(&["publish", "--url", &url, "--data", "{\"n\":1}"], &[], b"");
        assert_eq!((code, errors.as_str()), (FAILED, "error: not accepted: 404 unknown\n"));
        request.join().expect("a request");
    }

    #[test]
    fn an_event_reaches_a_topic_and_its_place_is_told() {
        let cluster = MockCluster::new(1).expect("a mock cluster");
        cluster.create_topic("lerian.streaming.loans", 1, 1).expect("a topic");
        let brokers = cluster.bootstrap_servers();
        let (code, output, errors) =
            ran(&["publish", "--kafka", &brokers, "--tenant", "t", "--source", "loans"], &[], b"");
        assert_eq!((code, errors.as_str()), (DONE, ""));
        assert!(output.ends_with(" at lerian.streaming.loans-0@0\n"), "{output}");
    }

    #[test]
    fn wrong_arguments_are_named_with_the_rule() {
        for (arguments, named) in [
            (&["publish"][..], "--url"),
            (&["publish", "--url", "https://hub/"], "http://"),
            (&["publish", "--kafka", "a:1"], "--tenant"),
            (&["publish", "--url", "http://hub/", "--event", "created"], "<resource>.<event>"),
            (&["publish", "--url", "http://hub/", "--subject", "a\nb"], "ce-subject"),
        ] {
            let (code, _, errors) = ran(arguments, &[], b"");
            assert!(code == MISUSED && errors.contains(named), "{arguments:?}: {errors}");
        }
    }
}
