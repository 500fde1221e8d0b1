//! Every bound of the hub, with its unit and its reason.
//!
//! A queue, table, loop or wait without a constant here is a defect. "Contract" names the promise a number
//! comes from; the other numbers are this engine's own and may be tuned.

mod cluster;

pub use cluster::*;

use super::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

// ── Words on the wire (contract) ─────────────────────────────────────────────────────────────────────────

/// A tenant id's bytes.
pub const TENANT_ID_MAX_BYTES: usize = 256;
/// A Kafka topic's `<source>`, in bytes: what is left of Kafka's 249 after the prefix.
pub const SOURCE_NAME_MAX_BYTES: usize = 223;
/// `ce-resourcetype` and `ce-eventtype`, each, in bytes.
pub const EVENT_WORD_MAX_BYTES: usize = 128;
/// `ce-subject`, in bytes.
pub const SUBJECT_MAX_BYTES: usize = 1024;
/// `ce-datacontenttype`, in bytes.
pub const DATA_CONTENT_TYPE_MAX_BYTES: usize = 256;
/// `ce-dataschema`, in bytes.
pub const DATA_SCHEMA_MAX_BYTES: usize = 2048;
/// One extension attribute's value, in bytes; all of them together are bounded by [`ATTRIBUTES_MAX_BYTES`].
pub const EXTENSION_MAX_BYTES: usize = 2048;
/// All context attributes of one event, in bytes: a delivery's head stays below what servers accept.
pub const ATTRIBUTES_MAX_BYTES: usize = 16 * KIB;
/// The payload by default; an operator may set it up to [`PAYLOAD_CEILING_BYTES`].
pub const PAYLOAD_DEFAULT_BYTES: usize = MIB;
/// The largest payload an operator may allow.
pub const PAYLOAD_CEILING_BYTES: usize = 10 * MIB;
/// Events in one CloudEvents batch.
pub const BATCH_MAX_EVENTS: usize = 1_000;
/// What of a quarantined body is kept.
pub const QUARANTINE_BODY_BYTES: usize = 64 * KIB;
/// Quarantined records kept whole per topic, reason and minute; the rest as hash and count.
pub const QUARANTINE_WHOLE_PER_MINUTE: u32 = 100;

/// An event key, in bytes: two words and the dot.
pub const EVENT_KEY_MAX_BYTES: usize = 2 * EVENT_WORD_MAX_BYTES + 1;
/// Extension attributes of one event: with the hub's own headers they stay below common servers' limit of 100.
pub const EXTENSIONS_MAX: usize = 64;
/// An extension attribute's name, in bytes; CloudEvents asks producers to stay at 20.
pub const EXTENSION_NAME_MAX_BYTES: usize = 64;
/// What of a quarantined record's headers is kept, names and values together.
pub const QUARANTINE_HEADERS_BYTES: usize = 64 * KIB;
/// A producer's `x-lerian-dlq-error-message`, in bytes; longer ones are cut.
pub const DEAD_LETTER_MESSAGE_MAX_BYTES: usize = 4096;
/// Any other text of a producer's dead letter, in bytes; longer ones are cut. Holds a topic's 249 and a tenant's 256.
pub const DEAD_LETTER_TEXT_MAX_BYTES: usize = 256;

// ── Configuration objects (contract) ─────────────────────────────────────────────────────────────────────

/// Subscriptions of one tenant, by default.
pub const SUBSCRIPTIONS_PER_TENANT: usize = 1_000;
/// Destinations of one tenant, by default.
pub const DESTINATIONS_PER_TENANT: usize = 1_000;
/// Sources of one tenant, by default.
pub const SOURCES_PER_TENANT: usize = 100;
/// A name, in bytes.
pub const NAME_MAX_BYTES: usize = 256;
/// A description, in bytes.
pub const DESCRIPTION_MAX_BYTES: usize = 1024;
/// A destination's URL, in bytes.
pub const URL_MAX_BYTES: usize = 2048;
/// Static headers of one destination: with the hub's own they stay below common servers' limit of 100.
pub const STATIC_HEADERS_MAX: usize = 32;
/// One static header's value, in bytes.
pub const STATIC_HEADER_VALUE_MAX_BYTES: usize = 4096;
/// Filter rules of one subscription.
pub const FILTER_RULES_MAX: usize = 32;
/// Event patterns of one subscription.
pub const EVENT_PATTERNS_MAX: usize = 100;
/// Segments of a filter's dot path: a deeper path is a mistake or an attack.
pub const FILTER_PATH_SEGMENTS_MAX: usize = 32;
/// Fields and values of a subscription's filter rules together, in bytes of JSON: they stay in memory.
pub const FILTER_RULES_MAX_BYTES: usize = 64 * KIB;
/// How deep a JSON payload may nest before it counts as not JSON (contract, "Shapes").
pub const JSON_DEPTH_MAX: usize = 128;
/// A signing secret's shortest key, in bytes.
pub const SIGNING_SECRET_MIN_BYTES: usize = 24;
/// A signing secret's longest key, in bytes.
pub const SIGNING_SECRET_MAX_BYTES: usize = 64;
/// Secrets that sign at once: the newest and those still in their overlap.
pub const SIGNING_SECRETS_MAX: usize = 4;
/// How long a rotated-out secret keeps signing.
pub const SECRET_OVERLAP: Duration = Duration::from_hours(24);
/// How far a signature's timestamp may be from the receiver's clock (Standard Webhooks).
pub const SIGNATURE_TOLERANCE: Duration = Duration::from_secs(300);
/// An attempt's shortest deadline.
pub const TIMEOUT_MIN_MS: u32 = 1_000;
/// An attempt's deadline by default.
pub const TIMEOUT_DEFAULT_MS: u32 = 15_000;
/// An attempt's longest deadline.
pub const TIMEOUT_MAX_MS: u32 = 60_000;
/// Attempts in flight to one destination, by default.
pub const MAX_IN_FLIGHT_DEFAULT: u32 = 16;
/// Attempts in flight to one destination, at most.
pub const MAX_IN_FLIGHT_MAX: u32 = 1_024;
/// Tokens a second, and burst, of a rate limit.
pub const RATE_LIMIT_MAX: u32 = 100_000;

// ── Retries, circuit, auto-disable (contract) ────────────────────────────────────────────────────────────

/// Steps of a curve.
pub const RETRY_CURVE_STEPS_MAX: usize = 12;
/// One step of a curve, in seconds.
pub const RETRY_CURVE_STEP_MAX_S: u32 = 36_000;
/// Intervals of the other schedules.
pub const RETRY_INTERVALS_MAX: usize = 20;
/// One interval, in seconds.
pub const RETRY_INTERVAL_MAX_S: u32 = 86_400;
/// Retries of the other schedules.
pub const RETRIES_MAX: u32 = 100;
/// How far a `Retry-After` is believed.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(10);
/// A job's deadline is at least this after acceptance.
pub const DEADLINE_MIN: Duration = Duration::from_hours(24);
/// A job ends this long before its payload expires, and a schedule must end before that.
pub const EXPIRY_MARGIN: Duration = Duration::from_hours(24);
/// The hub's own fault is tried again after 1 s, doubling up to this.
pub const HUB_FAULT_RETRY_MAX: Duration = Duration::from_secs(60);
/// Consecutive failures that open a circuit, by default.
pub const CIRCUIT_THRESHOLD_DEFAULT: u32 = 5;
/// Consecutive failures that open a circuit, at most.
pub const CIRCUIT_THRESHOLD_MAX: u32 = 100;
/// How long a circuit stays open at first, by default.
pub const CIRCUIT_COOLDOWN_DEFAULT_MS: u32 = 60_000;
/// The shortest cooldown that may be set.
pub const CIRCUIT_COOLDOWN_MIN_MS: u32 = 1_000;
/// The longest cooldown that may be set.
pub const CIRCUIT_COOLDOWN_MAX_MS: u32 = 3_600_000;
/// Doubling stops here, or at the set cooldown where that is longer.
pub const CIRCUIT_COOLDOWN_CEILING: Duration = Duration::from_secs(600);
/// Circuits opened together must not probe together: ± this share, in percent.
pub const CIRCUIT_JITTER_PERCENT: u64 = 10;
/// Reclaims after which a job is attempted alone on its shard.
pub const RECLAIMS_BEFORE_ALONE: u32 = 2;
/// More reclaims than this, the last one alone, are poison.
pub const POISON_THRESHOLD: u32 = 5;
/// A claim runs out this long after its attempt's deadline.
pub const CLAIM_GRACE: Duration = Duration::from_secs(5);
/// Jobs that wait for a former owner's attempt, looked at in the log per second and shard: a node's 256 attempts by default,
/// spread over those who take its slots.
pub const FOREIGN_READS_PER_TICK: usize = 256;
/// A destination's failures must span this long to disable its subscriptions.
pub const AUTODISABLE_WINDOW: Duration = Duration::from_hours(120);
/// Its first and last failure must lie this far apart.
pub const AUTODISABLE_SPREAD: Duration = Duration::from_hours(12);
/// Runs of one event for one subscription.
pub const RUNS_MAX: usize = 100;

// ── A shard's memory and turns (this engine) ─────────────────────────────────────────────────────────────

/// Slots of a deployment on one machine, fixed when it is made.
pub const SLOTS_SINGLE_NODE: u16 = 64;
/// Attempts in flight per shard, by default (`STREAMING_HUB_DISPATCH_WORKERS`).
pub const ATTEMPTS_PER_SHARD_DEFAULT: u32 = 256;
/// Attempts in flight per shard, at most: descriptors and buffers are sized for it.
pub const ATTEMPTS_PER_SHARD_MAX: u32 = 4_096;
/// One tenant's part of the attempts in flight, as a divisor: 1/8.
pub const TENANT_SHARE_DIVISOR: u32 = 8;
/// All slow destinations' part of the attempts in flight together, as a divisor: 1/2.
pub const SLOW_SHARE_DIVISOR: u32 = 2;
/// A destination whose attempts take longer than this in the mean is slow.
pub const SLOW_MEAN: Duration = Duration::from_secs(2);
/// Retries' part of the attempts in flight while first attempts wait, as a divisor: 1/2.
pub const RETRY_SHARE_DIVISOR: u32 = 2;
/// Events and their payloads held in memory per shard; beyond it jobs wait on disk.
pub const SHARD_EVENT_BYTES: usize = 32 * MIB;
/// Jobs held in memory per shard: at 200 bytes each, 20 MB.
pub const SHARD_JOBS_MAX: usize = 100_000;
/// Jobs of one subscription held in memory before the rest waits behind its overflow cursor: two full
/// windows of the largest `max_in_flight`, so that draining never waits for a read.
pub const QUEUE_HEAD_JOBS: usize = 2_048;
/// A queue below this many jobs is filled again from disk.
pub const QUEUE_REFILL_BELOW: usize = 512;
/// Jobs of one tenant held in memory, so that no tenant takes the whole shard's share.
pub const TENANT_JOBS_MAX: usize = 16_384;
/// Events read from the log in one page: a page is decoded in one turn, so it bounds a turn.
pub const LOG_PAGE_EVENTS: usize = 512;
/// Bytes read from the log in one page.
pub const LOG_PAGE_BYTES: usize = 4 * MIB;
/// Due rows read in one page.
pub const DUE_PAGE_ROWS: usize = 512;
/// Retries nearer than this stay in memory; later ones are rows of the store.
pub const NEAR_FUTURE: Duration = Duration::from_secs(60);
/// How far ahead due rows are read.
pub const DUE_READ_AHEAD: Duration = Duration::from_secs(10);
/// A job open longer than this and not in flight is covered by a due row or an overflow cursor, so that the
/// tail that a restart replays stays short.
pub const TAIL_MAX: Duration = Duration::from_secs(60);
/// How often what is derived (ids, low-water, cursors, lane positions) is written behind.
pub const WRITE_BEHIND: Duration = Duration::from_secs(1);
/// Events of one slot gathered into one batch, at most.
pub const BATCH_MAX_ROWS: usize = 4_096;
/// Bytes of one slot's batch, at most.
pub const BATCH_MAX_BYTES: usize = 8 * MIB;
/// Arrivals waiting for admission (a dedup bucket being read, a batch on its way) per shard, in events.
pub const ADMISSION_MAX_EVENTS: usize = 16_384;
/// The same in bytes. Beyond either: lanes pause, HTTP answers 503.
pub const ADMISSION_MAX_BYTES: usize = 32 * MIB;
/// Records of one lane between the oldest that is not durable and the newest read: beyond, the lane pauses.
pub const LANE_OPEN_RECORDS: usize = 8_192;
/// A paused lane resumes below this many.
pub const LANE_RESUME_BELOW: usize = 2_048;
/// Memory for the dedup window per shard: 2 million ids at 32 bytes.
pub const DEDUP_BYTES: usize = 64 * MIB;
/// A bucket of ids that nobody asks for leaves memory after this: producers repeat what they were not told of within minutes,
/// and a later duplicate costs one read.
pub const DEDUP_IDLE: Duration = Duration::from_secs(600);
/// A bucket of ids takes at most this part of that memory, as a divisor: 1/2, or 1.2 million ids of one slot and
/// minute. Of a larger one only the ids asked for are looked up.
pub const DEDUP_BUCKET_DIVISOR: usize = 2;
/// Buckets remembered as too large for memory: one forgotten is read once in vain to find that out again.
pub const DEDUP_LARGE_BUCKETS: usize = 64;
/// Ids read from a bucket in one page: about half a millisecond of a turn.
pub const IDS_PAGE: usize = 4_096;
/// Ids packed into one row of a bucket, so that a page ends where it should.
pub const IDS_PACK: usize = 4_096;
/// Dedup bucket reads on their way per shard.
pub const DEDUP_READS_MAX: usize = 64;
/// Tries of a batch that the store refuses before its events are tried alone.
pub const STORE_REFUSALS_BEFORE_SPLIT: u32 = 3;
/// Tries alone before a record is quarantined as `unstorable`.
pub const STORE_REFUSALS_ALONE: u32 = 3;
/// A refused batch is tried again after this, doubling up to [`STORE_RETRY_MAX`].
pub const STORE_RETRY_MIN: Duration = Duration::from_millis(100);
/// The longest pause between two tries of a batch.
pub const STORE_RETRY_MAX: Duration = Duration::from_secs(5);
/// How long the row of an attempt's outcome, for which nobody waits, may wait for others to share its sync.
pub const OUTCOME_LINGER: Duration = Duration::from_millis(5);
/// A shard without progress for this long ends the process.
pub const SHARD_STALL: Duration = Duration::from_secs(30);

// ── Outbound connections (this engine) ───────────────────────────────────────────────────────────────────

/// How long a connection is kept idle: shorter than the 5 s after which many servers close theirs, since a
/// request that meets the closing is an attempt lost.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections of one executor to one host and port: as many as attempts run by default, so that a burst
/// that ends together is kept.
pub const IDLE_CONNECTIONS_PER_HOST: usize = 256;
/// Idle connections of one executor: a quarter of a usual limit of 4 096 descriptors.
pub const IDLE_CONNECTIONS_MAX: usize = 1_024;
/// Destinations whose keys, fixed headers and TLS sessions an executor holds ready, at about 4 KiB each.
pub const PREPARED_DESTINATIONS_MAX: usize = 16_384;
/// A destination not called for this long is prepared anew when it is.
pub const PREPARED_IDLE_MAX: Duration = Duration::from_secs(300);
/// Streams at once on one HTTP/2 connection, whatever more its receiver allows: the least that RFC 9113, section 6.5.2,
/// asks receivers to allow.
pub const HTTP2_STREAMS_MAX: usize = 100;
/// How often one attempt is sent anew because its HTTP/2 stream was not processed.
pub const HTTP2_RESENDS_MAX: usize = 16;
/// How often idle connections and prepared destinations are looked through.
pub const OUTBOUND_SWEEP: Duration = Duration::from_secs(1);
/// The next address of a name is tried after this, while the one before is still connecting (RFC 8305).
pub const CONNECT_STAGGER: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried in one attempt.
pub const CONNECT_ADDRESSES_MAX: usize = 4;
/// Names that an executor remembers.
pub const DNS_CACHE_ENTRIES: usize = 4_096;
/// How long an answer of the resolver is believed at most: a moved receiver is found within this.
pub const DNS_TTL_MAX: Duration = Duration::from_secs(60);
/// Names being resolved at once, and as many waiting.
pub const DNS_QUERIES_MAX: usize = 512;

// ── The embedded store (this engine) ─────────────────────────────────────────────────────────────────────

/// Submissions waiting for the committer: every unit has at most one, and configuration writes come beside.
pub const STORE_SUBMISSIONS: usize = 4_096;
/// What one fsync carries at most, in bytes: a larger one delays everybody behind it.
pub const STORE_COMMIT_BYTES: usize = 32 * MIB;
/// Reads of the engines waiting; beyond, a read is answered as failed and asked again.
pub const STORE_READS: usize = 4_096;
/// Queries of the API waiting; beyond, the API answers that it is busy.
pub const STORE_QUERIES: usize = 256;
/// Threads that answer the engines' reads, and as many for the API's queries.
pub const STORE_READERS: usize = 2;
/// Threads that write tables and merge them. One: of several, fjall keeps the first free to write tables, and while
/// others merge it spins.
pub const STORE_COMPACTORS: usize = 1;
/// The block cache, in bytes.
pub const STORE_CACHE_BYTES: u64 = 64 * MIB as u64;
/// The journals, in bytes: what a restart replays at most, and what is removed from the disk in one go.
pub const STORE_JOURNAL_BYTES: u64 = 128 * MIB as u64;
/// A table of the log on disk, in bytes: as small as this, no merge keeps the one thread from writing the next.
pub const STORE_TABLE_BYTES: u64 = 16 * MIB as u64;
/// Rows of the log from this size on, in bytes, are kept apart from the sorted tables: events are, attempts are not.
pub const STORE_SEPARATED_BYTES: u32 = 512;
/// The log's memtable, in bytes; the other tables have an eighth. A commit waits while the disk takes a whole one.
pub const STORE_MEMTABLE_BYTES: u64 = 16 * MIB as u64;
/// After so many bytes committed the memtables are looked at: half of the smallest one.
pub const STORE_ROTATION_LOOK_BYTES: usize = MIB;
/// Tenants that one page of a slot's log passes over: each costs a seek.
pub const LOG_PAGE_SEEKS: usize = 1_024;
/// Events that one page of a queue or of an API list looks at.
pub const SCAN_MAX_EVENTS: usize = 4_096;
/// Bytes that one page of an API list looks at.
pub const SCAN_MAX_BYTES: usize = 32 * MIB;
/// Events behind the written ids that a look-up by id searches: a second's worth at full speed.
pub const TAIL_SEARCH_EVENTS: usize = 16_384;
/// Attempts of one job that the API shows.
pub const ATTEMPTS_SHOWN: usize = 256;
/// Rows that retention looks at in one step, each second: more than arrive in one.
pub const SWEEP_ROWS: usize = 50_000;
/// Ids stamped more than this ahead of the hub's clock have a forged time: they expire by their events' age, not
/// by their minute. Producers' clocks may be a day off.
pub const IDS_AHEAD: Duration = Duration::from_hours(24);
/// Between two passes of retention over everything.
pub const SWEEP_PAUSE: Duration = Duration::from_secs(600);
/// Below this share of free disk, in percent, intake stops.
pub const FREE_DISK_PERCENT: u64 = 5;
/// A file kept to be given up when the disk is full, so that outcomes still fit.
pub const RESERVE_BYTES: u64 = 16 * MIB as u64;
/// The reserve is given up below this much free disk, in bytes, and taken again well above it.
pub const RESERVE_RELEASE_BYTES: u64 = 64 * MIB as u64;

// ── The store on a CQL server (this engine) ──────────────────────────────────────────────────────────────

/// Payloads up to this size, in bytes, stand in their event's row; larger ones in rows of their own.
pub const CQL_INLINE_PAYLOAD_BYTES: usize = 8 * KIB;
/// One row of a larger payload, in bytes: servers want values below a mebibyte.
pub const CQL_PAYLOAD_PIECE_BYTES: usize = 512 * KIB;
/// Sequences of one partition of the log: about 8 MB of events of 1 KiB with one job each.
pub const CQL_LOG_CHUNK_EVENTS: u64 = 4_096;
/// Sequences of one partition of the tenants' index: about 25 MB.
pub const CQL_INDEX_CHUNK_EVENTS: u64 = 65_536;
/// Rows that are sent as one, in bytes: servers warn and refuse above some hundred KiB.
pub const CQL_WRITE_BYTES: usize = 64 * KIB;
/// Rows that are sent as one, by number.
pub const CQL_WRITE_ROWS: usize = 1_000;
/// A listed claim stays so long after it has run out: no two nodes' clocks are that far apart.
pub const CQL_CLAIM_BEYOND: Duration = Duration::from_secs(60);
/// Chunks and minutes of one slot that are remembered as listed; a forgotten one is listed again.
pub const CQL_LISTED_MAX: usize = 4_096;
/// After so long a chunk or minute is listed again, so that its entry outlives its rows.
pub const CQL_LIST_AGAIN: Duration = Duration::from_hours(24);
/// The longest time to live that servers take, in seconds: 20 years.
pub const CQL_TTL_MAX_S: u64 = 630_720_000;
/// Statements of one process on their way: past this a server of two cores gains no more throughput.
pub const CQL_IN_FLIGHT: usize = 512;
/// Batches and reads of one process waiting or on their way; beyond, they are refused and asked again.
pub const CQL_TASKS: usize = 4_096;
/// A statement without an answer for this long counts as failed, its fate unknown.
pub const CQL_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Connecting to the first node may take this long.
pub const CQL_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A change of the schema may take this long: all nodes must agree on it.
pub const CQL_SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);
/// A keyspace's name, in bytes (Cassandra's own limit).
pub const CQL_KEYSPACE_MAX_BYTES: usize = 48;
/// Tries to take a slot: each lost one means that somebody else just took it.
pub const CQL_TAKE_TRIES: u32 = 16;
/// Rows that the server sends in one page.
pub const CQL_PAGE_ROWS: i32 = 256;
/// Events of one page of a queue or of due rows that are read at once: each may have a payload of 10 MiB.
pub const CQL_READS_AT_ONCE: usize = 16;
/// Chunks of the tenants' index that one page of a queue looks into: each costs a request.
pub const CQL_INDEX_CHUNKS_PER_PAGE: u64 = 64;
/// Partitions that lanes are dealt into, so that all are listed without a scan. Changing it loses positions.
pub const CQL_LANE_BUCKETS: u8 = 16;
/// Days, hours or chunks of an index that one page of an API list looks into: each costs a request.
pub const CQL_PARTITIONS_PER_PAGE: usize = 64;
/// Events of one page of deliveries that are read from the log: each costs a request.
pub const CQL_DELIVERIES_EVENTS: usize = 512;
/// Rows that the server sends in one page of quarantined records, of up to 128 KiB each.
pub const CQL_PAGE_RECORDS: i32 = 16;
/// Rows at a chunk's begin in which its first event is looked for: an event's own row comes before its jobs'.
pub const CQL_CHUNK_HEAD_ROWS: i32 = 32;
/// An event of a slot received so much later has the higher number: nodes' clocks and their ways into it differ by less.
pub const CQL_ARRIVAL_SPREAD: Duration = Duration::from_secs(600);
/// Queries of the API that run at once: each may hold [`SCAN_MAX_BYTES`].
pub const CQL_QUERIES_AT_ONCE: usize = 16;

// ── Responses (contract) ─────────────────────────────────────────────────────────────────────────────────

/// What of a response body is kept.
pub const RESPONSE_BODY_BYTES: usize = 16 * KIB;
/// What of the response headers is kept.
pub const RESPONSE_HEADER_BYTES: usize = 8 * KIB;
/// A response head beyond this is `protocol`.
pub const RESPONSE_HEAD_MAX_BYTES: usize = 64 * KIB;
/// One line of error text, in bytes.
pub const ERROR_TEXT_MAX_BYTES: usize = 512;

// ── API ──────────────────────────────────────────────────────────────────────────────────────────────────

/// A page's size by default.
pub const PAGE_DEFAULT: usize = 20;
/// A page's size at most.
pub const PAGE_MAX: usize = 100;
/// An API request's body, in bytes; ingest has its own limit per source.
pub const API_BODY_MAX_BYTES: usize = MIB;
/// Faults named in one answer; a body of a mebibyte could have a hundred thousand.
pub const FAULTS_MAX: usize = 100;
/// API keys of one tenant.
pub const API_KEYS_PER_TENANT: usize = 100;
/// How long a rotated-out secret may be told to keep signing, in seconds: a week.
pub const SECRET_OVERLAP_MAX_S: u32 = 604_800;
/// A path's bytes, as Linux bounds them.
pub const PATH_MAX_BYTES: usize = 4_096;
/// How often an erasure looks whether the tenant's last attempt has ended.
pub const ERASURE_LOOK: Duration = Duration::from_millis(500);
/// A driver of an erasure not heard of for so long has lost it to whoever asks next; others ask as often.
pub const ERASURE_LEASE: Duration = Duration::from_secs(20);
/// An `Idempotency-Key`'s bytes.
pub const IDEMPOTENCY_KEY_MAX_BYTES: usize = 255;
/// Idempotency keys remembered of one tenant; beyond it that tenant's oldest is forgotten.
pub const IDEMPOTENCY_KEYS_PER_TENANT: usize = 1_000;
/// Bytes of answers remembered of all tenants together; beyond it the oldest of the writing tenant go.
pub const IDEMPOTENCY_BYTES: usize = 16 * MIB;
/// Pulls a second of one tenant, by default (contract).
pub const PULL_PER_SECOND: u32 = 100;
/// Pulls of one tenant in a burst, by default (contract).
pub const PULL_BURST: u32 = 200;
/// Tenants whose pull rate is remembered; a forgotten one begins with a full burst.
pub const PULL_TENANTS_MAX: usize = 10_000;
/// An HTTP request's head: hyper refuses more with 431.
pub const REQUEST_HEAD_MAX_BYTES: usize = 64 * KIB;
/// Headers of one request.
pub const REQUEST_HEADERS_MAX: usize = 128;
/// A request's head must be complete by then.
pub const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A request's body must be complete by then: a sender at 350 KB/s fits the largest one in.
pub const REQUEST_BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections the HTTP server keeps at once; beyond it new ones are closed.
pub const HTTP_CONNECTIONS_MAX: usize = 4_096;
/// Bytes of request bodies being read at once; beyond it 503: 4 096 connections must not fill the memory.
pub const REQUEST_BODIES_BYTES: usize = 128 * MIB;
/// One verification probe's deadline (contract).
pub const VERIFICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses before the tries of a verification: three within a minute (contract).
pub const VERIFICATION_PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(10), Duration::from_secs(20)];
/// Verification probes on their way at once; the others wait their turn.
pub const VERIFICATIONS_MAX: usize = 256;
/// Subscriptions of one tenant being verified at once, so that slow destinations delay only their own tenant.
pub const VERIFICATIONS_PER_TENANT: usize = 4;
/// What a client is told to wait when the hub is overloaded, draining or without its store, in seconds.
pub const UNAVAILABLE_RETRY_AFTER_S: u32 = 1;
/// Dead letters that one bulk retry looks at: it must end within a request's patience.
pub const BULK_RETRY_MAX: usize = 10_000;
/// What of a refused body is still read and dropped, so that the client gets to read the answer.
pub const REFUSED_BODY_BYTES: usize = MIB;
/// For how long that goes on.
pub const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Entries of `X-Forwarded-For` that are looked at.
pub const FORWARDED_MAX: usize = 32;

// ── Kafka (this engine) ──────────────────────────────────────────────────────────────────────────────────

/// Fetched ahead of one partition, at least, in KiB.
pub const KAFKA_PREFETCH_MIN_KIB: usize = 64;
/// Fetched ahead of one partition, at most, in KiB: more adds memory, not speed.
pub const KAFKA_PREFETCH_MAX_KIB: usize = 64 * 1024;
/// One fetch response, at least: the client's own largest message.
pub const KAFKA_RESPONSE_MIN_BYTES: usize = MIB;
/// One fetch response, at most: what the prefetch may be overshot by.
pub const KAFKA_RESPONSE_MAX_BYTES: usize = 50 * MIB;
/// Fetched ahead of all partitions together, by default.
pub const KAFKA_PREFETCH_BYTES: usize = 64 * MIB;
/// After so long without a sign of life the group gives a process's partitions to others, by default.
pub const KAFKA_SESSION_TIMEOUT: Duration = Duration::from_secs(45);
/// How often watermarks are committed, and failed commits made again.
pub const KAFKA_COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// A commit without an answer for this long counts as failed.
pub const KAFKA_COMMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a revoked lane's shard may take to acknowledge.
pub const KAFKA_REVOKE_TIMEOUT: Duration = Duration::from_secs(10);
/// One question to the brokers.
pub const KAFKA_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A failed step is tried again after this.
pub const KAFKA_RETRY: Duration = Duration::from_secs(1);
/// How long closing a client may take before it is left behind.
pub const KAFKA_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// By how much ids must outlive the records of every followed topic (contract).
pub const IDS_OUTLIVE_TOPICS: Duration = Duration::from_hours(24);
/// How often a broker's refusal is said again while it lasts: each retry meets it anew.
pub const KAFKA_REFUSAL_REPEAT: Duration = Duration::from_secs(60);
/// One turn of the consumer's loop waits this long for the client: it bounds how late a timer fires.
pub const KAFKA_TURN: Duration = Duration::from_millis(50);
/// A lane that has records and has not moved for so long is reported as stalled.
pub const LANE_STALLED_AFTER: Duration = Duration::from_secs(30);
/// Reports of lanes out of range that wait for the consumer: more are made again at the next poll.
pub const KAFKA_REPORTS_MAX: usize = 1_024;
/// Alarms that wait for a reader; more are only logged.
pub const KAFKA_ALARMS_MAX: usize = 256;
/// Producers' dead letters read and not yet stored.
pub const TAP_LETTERS_MAX: usize = 256;
/// A client that reads nothing of its answer for this long is cut off.
pub const RESPONSE_STALL: Duration = Duration::from_secs(30);
/// How long a stopping server waits for its last connections.
pub const HTTP_DRAIN_MAX: Duration = Duration::from_secs(5);
/// One tenant's part of the request bodies being read, as a divisor: 1/4.
pub const BODIES_SHARE_DIVISOR: usize = 4;
