//! The API as one value: what its handlers share, and the way from a request's head to its answer.
//!
//! It lives on one executor. Handlers are short: parse → call → view. No borrow is held over an await.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use uuid::Uuid;

use crate::deliver::Client;
use crate::deliver::dns::Resolver;
use crate::runtime::Clock;
use crate::store::scylla::token;
use crate::store::{ConfigRecord, FeedNumber, Queries, Store};
use crate::types::ids::uuid_v7;
use crate::types::{Slot, TenantId, Time};

use super::answer::Answer;
use super::auth::{self, Access, Caller};
use super::backup::Backup;
use super::call::Call;
use super::config_store;
use super::config_writer::ConfigWriter;
use super::dispatch;
use super::idempotency::{self, Decision, Table};
use super::objects::{Rules, UrlCheck};
use super::page::Query;
use super::problem::Problem;
use super::pull_rate::PullRate;
use super::router;
use super::settings::Settings;
use super::shards::Shards;
use super::verify::Verifier;

/// How far the process is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not ready yet: slots are loading.
    Starting,
    /// Serving and ready.
    Serving,
    /// `/readyz` says 503; everything is still served.
    NotReady,
    /// Ingest is refused as well.
    Draining,
}

/// What the API works with.
pub struct Links {
    /// The store.
    pub store: Store,
    /// All configuration as stored; the shards know it already.
    pub configuration: Vec<ConfigRecord>,
    /// The number of the last change in it.
    pub feed_number: FeedNumber,
    /// All shards.
    pub shards: Rc<dyn Shards>,
    /// The executor's client.
    pub client: Client,
    /// Names.
    pub resolver: Resolver,
    /// Time.
    pub clock: Clock,
    /// For ids, which must be unique but are no secret.
    pub seed: u64,
}

/// What the handlers share.
pub struct Service {
    /// What the operator set.
    pub settings: Settings,
    /// The store: whether events may come in.
    pub store: Store,
    /// What the store lists and finds.
    pub queries: Queries,
    /// All shards.
    pub shards: Rc<dyn Shards>,
    /// The way out, for verifications.
    pub client: Client,
    /// Names, for judging URLs when they are saved.
    pub resolver: Resolver,
    /// The directory and its only writer.
    pub writer: ConfigWriter,
    /// Verifications in the background.
    pub verifier: Verifier,
    /// The last backup.
    pub backup: RefCell<Option<Backup>>,
    /// How often tenants pull.
    pub pulls: RefCell<PullRate>,
    /// Tenants whose erasure is gone on with here.
    pub erasing: RefCell<BTreeSet<TenantId>>,
    /// This process, among those that may drive an erasure.
    pub driver: Uuid,
    clock: Clock,
    check_url: Box<UrlCheck>,
    idempotency: RefCell<Table>,
    random: RefCell<fastrand::Rng>,
    phase: Cell<Phase>,
}

impl Service {
    /// Takes up verifications that a restart interrupted; begins in [`Phase::Starting`]. Call it on the executor.
    #[must_use]
    pub fn start(settings: Settings, links: Links) -> Rc<Self> {
        let guard = settings.guard.clone();
        let Links { store, configuration, feed_number, shards, client, resolver, clock, seed } = links;
        let stored = (configuration, feed_number);
        let service = Rc::new(Self {
            writer: ConfigWriter::new(config_store::of(&store), Rc::clone(&shards), stored),
            verifier: Verifier::new(),
            backup: RefCell::default(),
            pulls: RefCell::new(PullRate::new(settings.pull)),
            erasing: RefCell::default(),
            driver: token(),
            clock,
            check_url: Box::new(move |url| guard.check_url(url).map_err(|error| error.to_string())),
            idempotency: RefCell::new(Table::new(settings.idempotency_ttl)),
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
            phase: Cell::new(Phase::Starting),
            settings,
            queries: store.queries(),
            store,
            shards,
            client,
            resolver,
        });
        super::verify::resume(&service);
        super::erasure::resume(&service);
        service
    }

    /// Forgets what is remembered of a tenant beside its configuration.
    pub fn forget(&self, tenant: &TenantId) {
        self.idempotency.borrow_mut().forget(tenant.as_str());
        self.pulls.borrow_mut().forget(tenant);
    }

    /// Moves on to another phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// The phase now.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Bits for one id.
    #[must_use]
    pub fn random(&self) -> u128 {
        self.random.borrow_mut().u128(..)
    }

    /// A new UUIDv7.
    #[must_use]
    pub fn new_id(&self, now: Time) -> Uuid {
        uuid_v7(now, self.random())
    }

    /// Bytes for a secret, from the operating system.
    ///
    /// # Errors
    /// 503 when it has none to give.
    pub fn secret_bytes(&self) -> Result<[u8; 32], Problem> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| Problem::unavailable("the system gives no random bytes"))?;
        Ok(bytes)
    }

    /// What bodies are checked against.
    #[must_use]
    pub fn rules(&self, now: Time) -> Rules<'_> {
        Rules {
            payload_retention_s: self.settings.payload_retention.as_secs(),
            allow_unverified: self.settings.allow_unverified,
            check_url: &*self.check_url,
            now,
        }
    }

    /// The slot of a tenant.
    #[must_use]
    pub fn slot(&self, tenant: &TenantId) -> Slot {
        Slot::of(tenant, self.settings.slots)
    }

    /// Looks at a request's head: the endpoint, and whether the key opens it. The body is not read yet.
    ///
    /// # Errors
    /// The answer, when there is none or it does not.
    pub fn admit(&self, head: &Parts) -> Result<Call, Answer> {
        let now = self.now();
        let request_id = self.new_id(now).to_string();
        let call = self.open(head, now, request_id.clone());
        call.map_err(|problem| finished(Answer::problem(&problem, &request_id), &request_id))
    }

    fn open(&self, head: &Parts, now: Time, request_id: String) -> Result<Call, Problem> {
        let (endpoint, access) = router::route(head.method.as_str(), head.uri.path())?;
        let caller = match access {
            Access::Open => None,
            Access::Tenant | Access::Operator => Some(self.caller(&head.headers, access)?),
        };
        Ok(Call {
            endpoint,
            caller,
            target: format!("{} {}", head.method, head.uri),
            query: Query::parse(head.uri.query().unwrap_or_default()),
            headers: head.headers.clone(),
            body: Bytes::new(),
            now,
            request_id,
        })
    }

    fn caller(&self, headers: &HeaderMap, access: Access) -> Result<Caller, Problem> {
        let directory = self.writer.directory();
        let caller = auth::caller(headers, self.settings.admin_key, |hash| directory.tenant_of(hash).cloned())?;
        auth::permit(&caller, access)?;
        Ok(caller)
    }

    /// Answers an admitted request. Must run to its end.
    pub async fn answer(self: Rc<Self>, call: Call) -> Answer {
        let request_id = call.request_id.clone();
        let answer = self.answer_once(call).await;
        finished(answer.unwrap_or_else(|problem| Answer::problem(&problem, &request_id)), &request_id)
    }

    /// The same request under one `Idempotency-Key` is done once.
    async fn answer_once(self: &Rc<Self>, call: Call) -> Result<Answer, Problem> {
        let key = if call.target.starts_with("POST ") { idempotency::key_of(&call.headers)? } else { None };
        let Some(key) = key else { return dispatch::dispatch(self, call).await };
        let scope = match &call.caller {
            Some(Caller::Tenant(tenant)) => tenant.to_string(),
            Some(Caller::Operator) | None => String::new(),
        };
        let print = idempotency::fingerprint(&call.target, &call.body);
        let decision = self.idempotency.borrow_mut().begin(&scope, key, print, call.now)?;
        let ticket = match decision {
            Decision::Again(answer) => return Ok(*answer),
            Decision::First(ticket) => ticket,
        };
        let request_id = call.request_id.clone();
        let answer = dispatch::dispatch(self, call).await;
        let answer = answer.unwrap_or_else(|problem| Answer::problem(&problem, &request_id));
        self.idempotency.borrow_mut().finish(&ticket, &answer);
        Ok(answer)
    }
}

fn finished(answer: Answer, request_id: &str) -> Answer {
    answer.with("x-request-id", request_id.to_owned())
}
