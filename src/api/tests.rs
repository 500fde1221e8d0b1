//! The API as a whole: a real store in a directory of its own, a real client, and shards that take notes.

mod cluster;
mod ingest;
mod objects;
mod reads;
mod serving;
mod verification;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use http::request::Parts;
use serde_json::Value;

use super::auth::KeyHash;
use super::service::{Links, Phase, Service};
use super::settings::Settings;
use super::shards::{LaneStatus, Local, Shards};
use crate::deliver::dns::{Addresses, DnsError, Resolver};
use crate::deliver::tls::Tls;
use crate::deliver::{Client, ClientSettings, Guard};
use crate::engine::{CircuitReport, Command, CommandResult, JobQuestion, SettledItem, ShardReport, Standing};
use crate::runtime::Clock;
use crate::runtime::boot::run_local;
use crate::store::{Embedded, EmbeddedSettings, FeedNumber, Retention};
use crate::types::counters::StoreCounters;
use crate::types::destination::RateLimit;
use crate::types::{ConfigChange, DestinationId, Duration, Event, LaneName, Sequence, TenantId, Time};

const ADMIN: &str = "root";

/// Shards that only take notes, and answer as told.
#[derive(Default)]
struct Notes {
    changes: RefCell<Vec<ConfigChange>>,
    commands: RefCell<Vec<Command>>,
    arrived: RefCell<Vec<Event>>,
    settle_as: Cell<Option<SettledItem>>,
    result: Cell<Option<CommandResult>>,
    reports: RefCell<Vec<ShardReport>>,
    /// What the shard has in memory beside the store.
    sequence: Cell<Option<Sequence>>,
}

impl Shards for Notes {
    fn arrive<'a>(&'a self, _: &'a TenantId, events: Vec<Event>) -> Local<'a, Vec<SettledItem>> {
        let item = self.settle_as.get().unwrap_or(SettledItem::Stored(Sequence(1)));
        let items = vec![item; events.len()];
        self.arrived.borrow_mut().extend(events);
        Box::pin(std::future::ready(items))
    }

    fn configure(&self, change: ConfigChange) -> Local<'_, ()> {
        self.changes.borrow_mut().push(change);
        Box::pin(std::future::ready(()))
    }

    fn command<'a>(&'a self, _: &'a TenantId, command: Command) -> Local<'a, CommandResult> {
        self.commands.borrow_mut().push(command);
        Box::pin(std::future::ready(self.result.get().unwrap_or(CommandResult::Done(None))))
    }

    fn circuit<'a>(&'a self, _: &'a TenantId, _: DestinationId) -> Local<'a, Option<CircuitReport>> {
        Box::pin(std::future::ready(None))
    }

    fn standings<'a>(&'a self, _: &'a TenantId, jobs: Vec<JobQuestion>) -> Local<'a, Vec<Standing>> {
        Box::pin(std::future::ready(vec![Standing::Unknown; jobs.len()]))
    }

    fn sequence_of<'a>(&'a self, _: &'a TenantId, _: uuid::Uuid) -> Local<'a, Option<Sequence>> {
        Box::pin(std::future::ready(self.sequence.get()))
    }

    fn report(&self) -> Local<'_, Vec<ShardReport>> {
        Box::pin(std::future::ready(self.reports.borrow().clone()))
    }

    fn closed(&self) -> Option<&'static str> {
        None
    }

    fn lanes(&self) -> Local<'_, Vec<LaneStatus>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn metrics(&self, _: StoreCounters) -> Local<'_, String> {
        Box::pin(std::future::ready("# EOF\n".to_owned()))
    }
}

/// One API with what stands around it.
struct Hub {
    api: Rc<Service>,
    notes: Rc<Notes>,
    store: Embedded,
}

/// What an answer says.
#[derive(Debug)]
struct Said {
    status: u16,
    body: Value,
    headers: Vec<(&'static str, String)>,
}

impl Said {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }

    fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }

    fn pointers(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        errors.iter().filter_map(|fault| fault["pointer"].as_str()).collect()
    }

    fn id(&self) -> &str {
        self.body["id"].as_str().expect("the object has an id")
    }
}

/// Runs `test` with an API in a new directory.
fn with_hub<F: Future<Output = ()>>(test: impl FnOnce(Hub) -> F) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    run_local(async { test(Hub::at(dir.path()).await).await });
}

impl Hub {
    async fn at(dir: &Path) -> Self {
        let clock = Clock::start();
        let settings = EmbeddedSettings {
            dir: dir.to_owned(),
            shards: 1,
            slots: 64,
            kek: None,
            clock,
            retention: Retention::default(),
        };
        let store = Embedded::open(settings).expect("the directory opens");
        let notes = Rc::new(Notes::default());
        let resolver = names();
        let client = ClientSettings {
            guard: guard(),
            tls: Tls::new(None).expect("the public roots"),
            resolver: resolver.clone(),
            clock,
        };
        let links = Links {
            store: store.clone().into(),
            configuration: store.load_configuration().expect("the store answers"),
            feed_number: FeedNumber::default(),
            shards: Rc::clone(&notes) as Rc<dyn Shards>,
            client: Client::new(client),
            resolver,
            clock,
            seed: 7,
        };
        let api = Service::start(settings_for_tests(), links);
        api.enter(Phase::Serving);
        Self { api, notes, store }
    }

    /// Sends a request with a key; `line` is the method and the target.
    async fn ask(&self, key: &str, line: &str, body: impl Into<Option<Value>>) -> Said {
        self.ask_with(key, line, &[], body).await
    }

    async fn ask_with(&self, key: &str, line: &str, headers: &[(&str, &str)], body: impl Into<Option<Value>>) -> Said {
        let mut call = match self.api.admit(&head(key, line, headers)) {
            Ok(call) => call,
            Err(answer) => return said(answer),
        };
        call.body = body.into().map_or_else(Bytes::new, |body| body.to_string().into());
        said(Rc::clone(&self.api).answer(call).await)
    }

    /// A new key of a tenant.
    async fn key(&self, tenant: &str) -> String {
        let said = self.ask(ADMIN, &format!("POST /admin/tenants/{tenant}/keys"), None).await;
        assert_eq!(said.status, 201, "{said:?}");
        said.body["key"].as_str().expect("the key is shown").to_owned()
    }
}

fn said(answer: super::answer::Answer) -> Said {
    let body =
        if answer.body.is_empty() { Value::Null } else { serde_json::from_slice(&answer.body).unwrap_or(Value::Null) };
    Said { status: answer.status, body, headers: answer.headers }
}

fn head(key: &str, line: &str, headers: &[(&str, &str)]) -> Parts {
    let (method, target) = line.split_once(' ').expect("a method and a target");
    let mut request = http::Request::builder().method(method).uri(target);
    if !key.is_empty() {
        request = request.header("x-api-key", key);
    }
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).expect("a request").into_parts().0
}

fn guard() -> Guard {
    Guard::new(false, vec!["127.0.0.0/8".parse().expect("a network")])
}

fn settings_for_tests() -> Settings {
    Settings {
        payload_retention: Duration::from_hours(168),
        allow_unverified: true,
        idempotency_ttl: Duration::from_hours(24),
        secret_overlap: Duration::from_hours(24),
        guard: guard(),
        subscriptions_per_tenant: 3,
        destinations_per_tenant: 3,
        sources_per_tenant: 3,
        pull: RateLimit { per_second: 1, burst: 20 },
        admin_key: Some(KeyHash::of(ADMIN)),
        type_prefix: "studio.lerian".to_owned(),
        trusted_proxies: Vec::new(),
        slots: 64,
        node: "n1".to_owned(),
        ingest_lane: LaneName("http/0".into()),
    }
}

/// Names under `.test` are on loopback, `private.test` is not public, others do not exist.
fn names() -> Resolver {
    let answer = |host: &str| {
        let address = match host {
            "private.test" => IpAddr::from([10, 0, 0, 1]),
            host if host.ends_with(".test") => IpAddr::from(Ipv4Addr::LOCALHOST),
            host => return Err(DnsError::Failed { host: host.to_owned(), reason: "no such name".to_owned() }),
        };
        Ok(Addresses { addresses: vec![address], ttl: Duration::ZERO })
    };
    Resolver::from_function(answer).expect("a thread")
}

/// A receiver on loopback that answers each request's body by a function: status line's rest and body.
fn receiver(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            // A client that goes away is no fault of the receiver's.
            let _ = answer_one(stream, &answer);
        }
    });
    address
}

fn answer_one(mut stream: TcpStream, answer: &impl Fn(&str) -> (u16, String)) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, text) = answer(&String::from_utf8_lossy(&body));
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}", text.len())
}
