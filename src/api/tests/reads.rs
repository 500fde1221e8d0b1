//! Lists and single reads over what the engine has stored, and retrying it.

use super::*;
use crate::engine::rows::{NewJob, SlotRecord};
use crate::engine::{Batch, BatchNumber, QuarantineRecord, Row, Unit};
use crate::store::StoreEvent;
use crate::types::{
    AttemptId, AttemptOutcome, AttemptRecord, Attributes, ClaimRecord, End, EndReason, ErrorKind, JobKey, JobRecord,
    RunId, ShardId, Slot, SubscriptionId, Trigger,
};
use serde_json::json;
use uuid::Uuid;

const SUBSCRIPTION: SubscriptionId = SubscriptionId(Uuid::from_u128(1));
const DESTINATION: DestinationId = DestinationId(Uuid::from_u128(2));
const START: Time = Time::from_millis(1_790_000_000_000);

fn tenant() -> TenantId {
    TenantId::new("acme").expect("a tenant")
}

fn key(sequence: u64) -> JobKey {
    JobKey { slot: Slot::of(&tenant(), 64), sequence: Sequence(sequence), ordinal: 0 }
}

fn event(sequence: u64) -> Event {
    let received_at = START + Duration::from_secs(sequence);
    let id = crate::types::ids::uuid_v7(received_at, u128::from(sequence));
    let text = id.to_string();
    let pairs = [("id", text.as_str()), ("source", "loans"), ("datacontenttype", "application/json")];
    Event {
        tenant: tenant(),
        id,
        sequence: Sequence(sequence),
        received_at,
        key: "loan.approved".into(),
        schema_major: 1,
        attributes: Attributes::pack(pairs),
        traceparent: None,
        tracestate: None,
        content_encoding: None,
        source_id: None,
        request: None,
        lane: LaneName::kafka("lerian.streaming.loans", 0),
        payload: Bytes::from_static(br#"{"n": 1}"#),
    }
}

fn attempt(sequence: u64, end: Option<End>) -> Row {
    let claimed_at = START + Duration::from_secs(sequence);
    let outcome = AttemptOutcome {
        ended_at: claimed_at + Duration::from_millis(30),
        status: Some(500),
        error_kind: Some(ErrorKind::Status),
        response_body: "no".into(),
        ..AttemptOutcome::default()
    };
    let claim = ClaimRecord { attempt: AttemptId(Uuid::from_u128(5)), claimed_at, until: claimed_at, alone: false };
    let record = AttemptRecord {
        number: 1,
        claim,
        destination: DESTINATION,
        url: "http://r.test/".into(),
        outcome,
        counted: true,
        reclaim: false,
        next_at: None,
    };
    Row::Attempt { tenant: tenant(), key: key(sequence), record: Box::new(record), end }
}

fn dead_letter(sequence: u64) -> Row {
    let created_at = START + Duration::from_secs(sequence);
    let job = JobRecord {
        key: key(sequence),
        subscription: SUBSCRIPTION,
        destination: DESTINATION,
        run: RunId::MATCH,
        trigger: Trigger::Match,
        created_at,
        attempts: 1,
        counted: 1,
        reclaims: 0,
        open_claim: None,
        next_at: None,
        last_status: Some(500),
        last_error_kind: Some(ErrorKind::Status),
        end: Some((End::DeadLettered(EndReason::Exhausted), created_at)),
    };
    Row::DeadLetter { event: Rc::new(event(sequence)), job: Box::new(job) }
}

/// Five events with a job each: the first dead-lettered, the others pending.
async fn filled(hub: &Hub) -> String {
    let job = NewJob { subscription: SUBSCRIPTION, destination: DESTINATION, claim: None };
    let stored = |sequence| Row::Event { event: Rc::new(event(sequence)), jobs: vec![job] };
    let mut rows: Vec<Row> = (1..=5).map(stored).collect();
    rows.extend([attempt(1, Some(End::DeadLettered(EndReason::Exhausted))), dead_letter(1)]);
    submit(hub, Unit::Slot(Slot::of(&tenant(), 64)), rows).await;
    hub.key("acme").await
}

async fn submit(hub: &Hub, unit: Unit, rows: Vec<Row>) {
    hub.store.submit(ShardId(0), &[Batch { unit, number: BatchNumber(1), rows: rows.into() }]);
    let told = hub.store.events(ShardId(0)).recv_async().await;
    assert!(matches!(told, Ok(StoreEvent::Committed(..))), "{told:?}");
}

fn sequences(said: &Said) -> Vec<u64> {
    let items = said.body["items"].as_array().expect("a list");
    items.iter().filter_map(|item| item["sequence"].as_u64()).collect()
}

#[test]
fn events_are_pulled_in_order_of_arrival_without_end() {
    with_hub(|hub| async move {
        let key = filled(&hub).await;
        let mut line = "GET /v1/events?limit=2".to_owned();
        let mut pulled = Vec::new();
        for _ in 0..4 {
            let page = hub.ask(&key, &line, None).await;
            assert_eq!(page.status, 200, "{page:?}");
            pulled.extend(sequences(&page));
            let cursor = page.body["next_cursor"].as_str().expect("a puller learns where to go on");
            line = format!("GET /v1/events?limit=2&cursor={cursor}");
        }
        assert_eq!(pulled, [1, 2, 3, 4, 5]);
        let newest = hub.ask(&key, "GET /v1/events?order=desc&limit=3", None).await;
        assert_eq!(sequences(&newest), [5, 4, 3]);
        let filtered = hub.ask(&key, "GET /v1/events?event_type=loan.rejected", None).await;
        assert_eq!(sequences(&filtered), Vec::<u64>::new());
        let faulty = hub.ask(&key, "GET /v1/events?order=up&source_id=x&colour=1", None).await;
        assert_eq!(faulty.pointers(), ["/order", "/source_id", "/colour"]);
        let foreign = newest.body["next_cursor"].as_str().expect("a cursor");
        let bad = hub.ask(&key, &format!("GET /v1/events?cursor={foreign}"), None).await;
        assert_eq!(bad.code(), (422, "bad_cursor"));
    });
}

#[test]
fn an_event_whose_id_is_only_in_its_shards_memory_is_found() {
    with_hub(|hub| async move {
        let key = filled(&hub).await;
        let written = SlotRecord { low_water: Sequence(6), flushed: Sequence(6), due_bound: Time::ZERO };
        submit(&hub, Unit::Slot(Slot::of(&tenant(), 64)), vec![Row::Slot(written)]).await;
        let line = format!("GET /v1/events/{}", event(3).id);
        assert_eq!(hub.ask(&key, &line, None).await.status, 404, "the store alone does not find it");
        hub.notes.sequence.set(Some(Sequence(3)));
        assert_eq!(hub.ask(&key, &line, None).await.body["sequence"], 3);
        hub.notes.sequence.set(Some(Sequence(4)));
        assert_eq!(hub.ask(&key, &line, None).await.status, 404, "a number of another event is not believed");
    });
}

#[test]
fn pulling_too_often_is_429() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        for _ in 0..20 {
            let empty = hub.ask(&key, "GET /v1/events", None).await;
            assert_eq!((empty.status, empty.body["next_cursor"].is_string()), (200, true));
        }
        let refused = hub.ask(&key, "GET /v1/events", None).await;
        assert_eq!((refused.code(), refused.header("retry-after")), ((429, "rate_limited"), Some("1")));
    });
}

#[test]
fn one_event_is_found_by_its_id_with_payload_and_jobs() {
    with_hub(|hub| async move {
        let key = filled(&hub).await;
        let said = hub.ask(&key, &format!("GET /v1/events/{}", event(1).id), None).await;
        assert_eq!((said.status, &said.body["data"]), (200, &json!({"n": 1})), "{said:?}");
        assert_eq!(said.body["deliveries"][0]["status"], "dead_lettered");
        assert_eq!(said.body["deliveries"][0]["reason"], "exhausted");
        let stranger = hub.key("other").await;
        assert_eq!(hub.ask(&stranger, &format!("GET /v1/events/{}", event(1).id), None).await.status, 404);
        assert_eq!(hub.ask(&key, &format!("GET /v1/events/{}", Uuid::nil()), None).await.status, 404);
    });
}

#[test]
fn deliveries_are_listed_filtered_and_read_with_their_attempts() {
    with_hub(|hub| async move {
        let key = filled(&hub).await;
        let dead = hub.ask(&key, "GET /v1/deliveries?status=dead_lettered", None).await;
        assert_eq!(dead.body["items"].as_array().map(Vec::len), Some(1), "{dead:?}");
        let id = dead.body["items"][0]["id"].as_str().expect("an id").to_owned();
        let line = format!("GET /v1/deliveries?event_id={}&subscription_id={SUBSCRIPTION}", event(1).id);
        assert_eq!(hub.ask(&key, &line, None).await.body["items"][0]["id"], json!(id));
        let one = hub.ask(&key, &format!("GET /v1/delivery-attempts/{id}"), None).await;
        assert_eq!(one.body["attempts"][0]["response_body"], "no", "{one:?}");
        assert_eq!(one.body["attempts"][0]["duration_ms"], 30);
        let unknown = hub.ask(&key, &format!("GET /v1/deliveries?event_id={}", Uuid::nil()), None).await;
        assert_eq!((unknown.status, &unknown.body["items"]), (200, &json!([])));
        let faulty = hub.ask(&key, "GET /v1/deliveries?status=sent&event_id=x&destination_id=7", None).await;
        assert_eq!(faulty.pointers(), ["/event_id", "/status", "/destination_id"]);
        let stranger = hub.key("other").await;
        assert_eq!(hub.ask(&stranger, &format!("GET /v1/deliveries/{id}"), None).await.status, 404);
    });
}

#[test]
fn a_retry_is_a_command_and_says_what_became_of_it() {
    with_hub(|hub| async move {
        let key_text = filled(&hub).await;
        let listed = hub.ask(&key_text, "GET /v1/deliveries?status=dead_lettered", None).await;
        let line = format!("POST /v1/deliveries/{}/retry", listed.body["items"][0]["id"].as_str().expect("an id"));
        let answers = [
            (CommandResult::NotFound, 404, "not_found"),
            (CommandResult::SubscriptionDeleted, 409, "subscription_deleted"),
            (CommandResult::TooManyRuns, 409, "too_many_runs"),
            (CommandResult::Expired, 410, "payload_expired"),
            (CommandResult::Busy, 503, "unavailable"),
            (CommandResult::Done(Some(JobKey { ordinal: 1, ..key(1) })), 202, ""),
            (CommandResult::Done(None), 202, ""),
        ];
        for (result, status, code) in answers {
            hub.notes.result.set(Some(result));
            assert_eq!(hub.ask(&key_text, &line, None).await.code(), (status, code), "{result:?}");
        }
        let commanded = hub.notes.commands.borrow();
        assert!(commanded.iter().all(|command| matches!(command, Command::Retry { key: of, .. } if *of == key(1))));
    });
}

#[test]
fn every_subscription_of_an_event_is_retried() {
    with_hub(|hub| async move {
        let key = filled(&hub).await;
        let said = hub.ask(&key, &format!("POST /v1/events/{}/retry", event(2).id), None).await;
        assert_eq!((said.status, said.body["deliveries"].as_array().map(Vec::len)), (202, Some(1)), "{said:?}");
        assert_eq!(said.body["skipped"], 0);
    });
}

#[test]
fn dead_letters_are_listed_and_retried_one_by_one_or_all() {
    with_hub(|hub| async move {
        let key = filled(&hub).await;
        let listed = hub.ask(&key, "GET /v1/dead-letters?reason=exhausted", None).await;
        let letter = &listed.body["items"][0];
        assert_eq!((&letter["reason"], &letter["last_status"]), (&json!("exhausted"), &json!(500)), "{listed:?}");
        let none = hub.ask(&key, "GET /v1/dead-letters?reason=gone", None).await;
        assert_eq!(none.body["items"], json!([]));
        let all = hub.ask(ADMIN, "GET /admin/dead-letters", None).await;
        assert_eq!(all.body["items"][0]["tenant"], "acme");
        let line = format!("POST /v1/dead-letters/{}/retry", letter["id"].as_str().expect("an id"));
        assert_eq!(hub.ask(&key, &line, None).await.status, 202);
        let bulk = hub.ask(&key, "POST /v1/dead-letters/retry", json!({"reason": "exhausted"})).await;
        assert_eq!(bulk.body, json!({"matched": 1, "retried": 1, "skipped": 0}));
        hub.notes.result.set(Some(CommandResult::SubscriptionDeleted));
        let bulk = hub.ask(&key, "POST /v1/dead-letters/retry", json!({})).await;
        assert_eq!(bulk.body, json!({"matched": 1, "retried": 0, "skipped": 1}));
    });
}

#[test]
fn many_are_retried_oldest_first() {
    with_hub(|hub| async move {
        let key_text = filled(&hub).await;
        let end = End::DeadLettered(EndReason::Exhausted);
        let rows = (2..=4).flat_map(|sequence| [attempt(sequence, Some(end)), dead_letter(sequence)]);
        submit(&hub, Unit::Slot(Slot::of(&tenant(), 64)), rows.collect()).await;
        let bulk = hub.ask(&key_text, "POST /v1/dead-letters/retry", None).await;
        assert_eq!(bulk.body, json!({"matched": 4, "retried": 4, "skipped": 0}));
        let commands = hub.notes.commands.borrow();
        let keys = commands.iter().filter_map(|command| match command {
            Command::Retry { key, .. } => Some(*key),
            Command::ResetCircuit(..) | Command::ClearFailures(..) | Command::Mark(_) => None,
        });
        assert_eq!(keys.collect::<Vec<_>>(), [key(1), key(2), key(3), key(4)]);
    });
}

#[test]
fn operators_read_quarantine_shards_lanes_and_circuits() {
    with_hub(|hub| async move {
        let record = QuarantineRecord {
            topic: "lerian.streaming.loans".into(),
            partition: 1,
            offset: 9,
            received_at: START,
            reason: "bad_id",
            header: None,
            headers: Vec::new(),
            body: Bytes::from_static(b"x"),
            size: 1,
            sha256: [0; 32],
        };
        submit(&hub, Unit::Lanes, vec![Row::Quarantine(Box::new(record))]).await;
        let listed = hub.ask(ADMIN, "GET /admin/quarantine?reason=bad_id", None).await;
        let id = listed.body["items"][0]["id"].as_str().expect("an id").to_owned();
        let one = hub.ask(ADMIN, &format!("GET /admin/quarantine/{id}"), None).await;
        assert_eq!((&one.body["reason"], &one.body["body_base64"]), (&json!("bad_id"), &json!("eA==")));
        assert_eq!(hub.ask(ADMIN, &format!("GET /admin/quarantine/{}", Uuid::nil()), None).await.status, 404);
        for list in ["dlq", "shards", "lanes", "circuits"] {
            let said = hub.ask(ADMIN, &format!("GET /admin/{list}"), None).await;
            assert_eq!((said.status, &said.body["items"]), (200, &json!([])), "{list}");
        }
        let faulty = hub.ask(ADMIN, "GET /admin/dlq?limit=0&colour=1", None).await;
        assert_eq!(faulty.pointers(), ["/limit", "/colour"]);
        assert_eq!(hub.ask("", "GET /metrics", None).await.status, 200);
    });
}
