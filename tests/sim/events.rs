//! The events that producers and clients make: a plain description, and the engine's event made from it.

use bytes::Bytes;
use fastrand::Rng;
use streaming_hub::types::{Attributes, Event, LaneName, Sequence, SourceId, TenantId, Time, ids};
use uuid::Uuid;

use crate::scenario::{Scenario, chance, pick};

/// What a producer wanted to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPlan {
    pub tenant: TenantId,
    pub id: Uuid,
    pub key: &'static str,
    pub schema_major: u32,
    pub origin: &'static str,
    pub subject: Option<&'static str>,
    pub source_id: Option<SourceId>,
    /// The payload's `n`; a payload that is not JSON when absent.
    pub n: Option<u32>,
    /// The store refuses it by itself.
    pub unstorable: bool,
    /// Its dispatch kills the process.
    pub lethal: bool,
}

const KEYS: [&str; 4] = ["loan.approved", "loan.rejected", "card.issued", "card.blocked"];
const ORIGINS: [&str; 3] = ["loans", "cards", "desk"];
const SUBJECTS: [&str; 3] = ["one", "two", "three"];

/// The tenant numbered `index`.
pub fn tenant(index: usize) -> TenantId {
    TenantId::new(&format!("tenant-{index}")).expect("a plain name")
}

/// The source that a tenant's HTTP events come through.
pub fn source_of(tenant: &TenantId) -> SourceId {
    SourceId(Uuid::from_u128(u128::from(ids::murmur2(tenant.as_str().as_bytes()))))
}

impl EventPlan {
    /// A new event; its id's time is forged now and then.
    pub fn draw(rng: &mut Rng, scenario: &Scenario, now: Time) -> Self {
        let id_time = match rng.u32(0..12) {
            0 => Time(now.0 - rng.u64(0..=86_400_000_000)),
            1 => Time(now.0 + rng.u64(0..=86_400_000_000)),
            _ => now,
        };
        Self {
            tenant: tenant(rng.usize(0..scenario.tenants)),
            id: ids::uuid_v7(id_time, rng.u128(..)),
            key: pick::<&'static str>(rng, &KEYS),
            schema_major: rng.u32(1..=2),
            origin: pick::<&'static str>(rng, &ORIGINS),
            subject: rng.bool().then(|| *pick(rng, &SUBJECTS)),
            source_id: None,
            n: chance(rng, 90).then(|| rng.u32(0..10)),
            unstorable: chance(rng, scenario.unstorable_percent),
            lethal: false,
        }
    }

    /// A new event of one of so many tenants, for which everything is as it should be.
    pub fn of_tenant(rng: &mut Rng, tenants: usize, now: Time) -> Self {
        Self {
            tenant: tenant(rng.usize(0..tenants)),
            id: ids::uuid_v7(now, rng.u128(..)),
            key: pick::<&'static str>(rng, &KEYS),
            schema_major: rng.u32(1..=2),
            origin: pick::<&'static str>(rng, &ORIGINS),
            subject: rng.bool().then(|| *pick(rng, &SUBJECTS)),
            source_id: None,
            n: Some(rng.u32(0..10)),
            unstorable: false,
            lethal: false,
        }
    }

    /// The same event for another tenant: one id in two tenants is two events.
    pub fn for_tenant(&self, tenant: TenantId) -> Self {
        Self { tenant, ..self.clone() }
    }

    /// The engine's event, taken in at `now` by `lane`.
    pub fn event(&self, now: Time, lane: LaneName) -> Event {
        let id = self.id.to_string();
        let mut attributes = vec![("specversion", "1.0"), ("id", id.as_str()), ("source", self.origin)];
        attributes.extend(self.subject.map(|subject| ("subject", subject)));
        Event {
            tenant: self.tenant.clone(),
            id: self.id,
            sequence: Sequence(0),
            received_at: now,
            key: self.key.into(),
            schema_major: self.schema_major,
            attributes: Attributes::pack(attributes),
            traceparent: None,
            tracestate: None,
            content_encoding: None,
            source_id: self.source_id,
            request: None,
            lane,
            payload: self.payload(),
        }
    }

    fn payload(&self) -> Bytes {
        let text = match self.n {
            Some(n) => format!(r#"{{"n":{n},"unstorable":{},"lethal":{}}}"#, self.unstorable, self.lethal),
            None => format!("unstorable:{} lethal:{}", self.unstorable, self.lethal),
        };
        Bytes::from(text)
    }
}

/// Whether the store refuses `event` by itself.
pub fn is_unstorable(event: &Event) -> bool {
    contains(&event.payload, b"unstorable\":true") || contains(&event.payload, b"unstorable:true")
}

/// Whether the dispatch of `event` kills the process.
pub fn is_lethal(event: &Event) -> bool {
    contains(&event.payload, b"lethal\":true") || contains(&event.payload, b"lethal:true")
}

fn contains(payload: &[u8], part: &[u8]) -> bool {
    payload.windows(part.len()).any(|window| window == part)
}
