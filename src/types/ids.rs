//! Identifiers, each a type of its own, so that one kind can't be passed for another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::limits;
use super::time::Time;

/// Why a text is not the identifier it was meant to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The kind's prefix, such as `sub_`, is missing.
    #[error("must begin with `{0}`")]
    Prefix(&'static str),
    /// What follows the prefix is not 32 lower-case hexadecimal digits.
    #[error("must be `{0}` followed by 32 lower-case hexadecimal digits")]
    Digits(&'static str),
    /// A tenant id is empty, too long or has control characters.
    #[error("must be 1 to {max} bytes without control characters", max = limits::TENANT_ID_MAX_BYTES)]
    Tenant,
}

macro_rules! prefixed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// What the text form begins with.
            pub const PREFIX: &'static str = $prefix;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix($prefix).ok_or(IdError::Prefix($prefix))?;
                parse_simple(digits).map(Self).ok_or(IdError::Digits($prefix))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

prefixed_id!(
    /// A subscription: which events go to which destination.
    SubscriptionId, "sub_"
);
prefixed_id!(
    /// A destination: where deliveries go.
    DestinationId, "dst_"
);
prefixed_id!(
    /// An HTTP ingest endpoint of a tenant.
    SourceId, "src_"
);
prefixed_id!(
    /// One delivery (one job). It says where the job stands in the log: see [`DeliveryId::of`].
    DeliveryId, "dlv_"
);
prefixed_id!(
    /// A dead letter: the same 128 bits as its delivery.
    DeadLetterId, "dlt_"
);
prefixed_id!(
    /// A run of a job that a command started (a manual retry or a replay).
    RunId, "rpl_"
);
prefixed_id!(
    /// An API key's public id.
    KeyId, "key_"
);

impl RunId {
    /// Run 0: the job that matching made.
    pub const MATCH: Self = Self(Uuid::nil());
}

fn parse_simple(digits: &str) -> Option<Uuid> {
    let plain = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if plain { Uuid::try_parse(digits).ok() } else { None }
}

/// The id of one attempt, sent as `X-Lerian-Delivery-Id`; also the claim's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptId(pub Uuid);

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whose events and subscriptions they are. 1 to 256 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Box<str>);

impl TenantId {
    /// Checks and takes a tenant id.
    ///
    /// # Errors
    /// [`IdError::Tenant`] when it is empty, longer than 256 bytes or has control characters.
    pub fn new(text: &str) -> Result<Self, IdError> {
        let fits = !text.is_empty() && text.len() <= limits::TENANT_ID_MAX_BYTES;
        if fits && !text.chars().any(char::is_control) { Ok(Self(text.into())) } else { Err(IdError::Tenant) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TenantId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl Serialize for TenantId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TenantId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

/// The unit of ownership: murmur2(tenant) mod the number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u16);

impl Slot {
    /// The slot that owns `tenant` where a deployment has `slots` of them: Kafka's own partitioner
    /// (murmur2 of the key, made positive, modulo), so that producers keying by tenant meet it.
    #[must_use]
    pub fn of(tenant: &TenantId, slots: u16) -> Self {
        let hash = murmur2(tenant.as_str().as_bytes()) & 0x7fff_ffff;
        let slot = hash % u32::from(slots.max(1));
        Self(u16::try_from(slot).expect("a remainder of a u16 fits a u16"))
    }

    /// The shard that runs this slot where a process has `shards` of them.
    #[must_use]
    pub const fn shard(self, shards: u16) -> ShardId {
        ShardId(self.0 % shards)
    }
}

/// One pinned core: its lanes and slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(pub u16);

/// The arrival number of an event in its slot, from 1. At most 48 bits, which is 10 000 events a second for 890 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The lasting name of an ordered input, such as `kafka/lerian.streaming.loans/3` or `http/0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LaneName(pub Box<str>);

impl LaneName {
    /// The lane of one Kafka topic-partition.
    #[must_use]
    pub fn kafka(topic: &str, partition: i32) -> Self {
        Self(format!("kafka/{topic}/{partition}").into_boxed_str())
    }
}

impl fmt::Display for LaneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A UUIDv7 (RFC 9562, section 5.7) of `at` with 74 bits of `random`.
#[must_use]
pub fn uuid_v7(at: Time, random: u128) -> Uuid {
    let millis = u128::from(at.as_millis()) & ((1 << 48) - 1);
    let rand_a = (random >> 62) & 0xfff;
    let rand_b = random & ((1 << 62) - 1);
    Uuid::from_u128((millis << 80) | (7 << 76) | (rand_a << 64) | (0b10 << 62) | rand_b)
}

/// The millisecond that a UUIDv7 carries, as a time. It may be forged: nothing is rejected on it.
#[must_use]
pub fn uuid_v7_time(id: Uuid) -> Time {
    let millis = u64::try_from(id.as_u128() >> 80).expect("48 bits fit a u64");
    Time::from_millis(millis)
}

impl DeliveryId {
    /// The id of job `ordinal` of the event numbered `sequence`, received at `received_at`.
    ///
    /// A UUIDv7 whose 74 free bits carry the sequence (48), the ordinal (16) and a check (10), so that a
    /// delivery is found without an index and executing a command twice names the same job.
    #[must_use]
    pub fn of(received_at: Time, sequence: Sequence, ordinal: u16) -> Self {
        let place = (u128::from(sequence.0 & ((1 << 48) - 1)) << 16) | u128::from(ordinal);
        Self(uuid_v7(received_at, (place << 10) | u128::from(check_bits(place))))
    }

    /// Where the job stands in its slot's log; `None` when the id was not made by [`DeliveryId::of`].
    #[must_use]
    pub fn place(self) -> Option<(Sequence, u16)> {
        let bits = self.0.as_u128();
        let free = (((bits >> 64) & 0xfff) << 62) | (bits & ((1 << 62) - 1));
        let place = free >> 10;
        if free & 0x3ff != u128::from(check_bits(place)) {
            return None;
        }
        let sequence = u64::try_from(place >> 16).ok()?;
        let ordinal = u16::try_from(place & 0xffff).ok()?;
        Some((Sequence(sequence), ordinal))
    }

    /// The dead letter of this delivery.
    #[must_use]
    pub const fn dead_letter(self) -> DeadLetterId {
        DeadLetterId(self.0)
    }
}

impl DeadLetterId {
    /// The delivery that this dead letter ended.
    #[must_use]
    pub const fn delivery(self) -> DeliveryId {
        DeliveryId(self.0)
    }
}

fn check_bits(place: u128) -> u16 {
    let low = u64::try_from(place & u128::from(u64::MAX)).expect("masked to 64 bits");
    let mixed = low.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u16::try_from(mixed >> 54).expect("10 bits fit a u16")
}

/// Kafka's murmur2 with its own seed, as the Java client's default partitioner computes it.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let length = u32::try_from(data.len() & 0xffff_ffff).expect("masked to 32 bits");
    let mut hash = SEED ^ length;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_equals_the_java_client() {
        // From the Kafka client's own UtilsTest.
        let cases: [(&str, i32); 5] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ];
        for (text, expected) in cases {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), expected, "{text}");
        }
    }

    #[test]
    fn prefixed_ids_round_trip_and_name_their_fault() {
        let id = SubscriptionId(Uuid::from_u128(7));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("dst_00".parse::<SubscriptionId>(), Err(IdError::Prefix("sub_")));
        assert_eq!("sub_00".parse::<SubscriptionId>(), Err(IdError::Digits("sub_")));
    }

    #[test]
    fn a_delivery_id_is_a_uuid_v7_that_knows_its_place() {
        let at = Time::from_millis(1_645_557_742_000);
        let id = DeliveryId::of(at, Sequence(0xffff_ffff_fffe), 0xabcd);
        assert_eq!(id.0.get_version_num(), 7);
        assert_eq!(id.0.get_variant(), uuid::Variant::RFC4122);
        assert_eq!(uuid_v7_time(id.0), at);
        assert_eq!(id.place(), Some((Sequence(0xffff_ffff_fffe), 0xabcd)));
        assert_eq!(DeliveryId(Uuid::from_u128(id.0.as_u128() ^ 1)).place(), None);
    }

    #[test]
    fn a_uuid_v7_carries_its_millisecond() {
        let id: Uuid = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f".parse().expect("the vector of RFC 9562");
        assert_eq!(uuid_v7_time(id).as_millis(), 1_645_557_742_000);
    }
}
