//! The bare loop on CQL: a driver on one thread that writes what the hub writes for an event, and nothing else.
//!
//! The rows are the hub's own, read back from its log and bound to its own statements: the event with its payload and
//! claim, what became of the attempt, the claims in rows of their own, and once a second what is written behind: the
//! tenants' index, a pack of ids, the slot's record. As in the hub a slot has one batch on its way, and a batch as
//! many events as the hub's had.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use streaming_hub::runtime::{Clock, channel};
use streaming_hub::store::scylla::part::Part;
use streaming_hub::store::scylla::plan::{index_chunk, log_chunk};
use streaming_hub::store::scylla::statement::{Partition, Statement, Value, qualified};
use streaming_hub::types::{Sequence, Slot, Time, limits};

use super::process::own_thread_seconds;
use crate::failure::Failure;
use crate::hub::{CqlServer, cql};

/// Bytes of an id in a pack.
const ID_BYTES: usize = 19;
/// Bytes of a slot's record, about.
const RECORD_BYTES: usize = 25;
/// How often what is derived is written.
const BEHIND: Duration = Duration::from_secs(1);
/// Of every row here: the keyspace is dropped before.
const TTL: Value = Value::Int(86_400);
/// Rows of the hub's log in which one of each kind is looked for.
const SAMPLE_ROWS: i32 = 256;
/// What is written here.
const STATEMENTS: [Statement; 6] = [
    Statement::PutLog,
    Statement::PutLogPayload,
    Statement::PutClaim,
    Statement::PutIndex,
    Statement::PutIds,
    Statement::PutSlot,
];

/// What the hub was seen to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The slots that have tenants.
    pub slots: Vec<Slot>,
    /// Of a batch, in the mean.
    pub events_per_batch: f64,
    /// Claims in rows of their own.
    pub claims_per_event: f64,
    /// One of the tenants of the first slot.
    pub tenant: String,
}

/// What the loop did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BareCql {
    /// Events whose outcome is written.
    pub events: u64,
    /// Writes.
    pub requests: u64,
    /// Rows in them.
    pub rows: u64,
    /// How long it took.
    pub seconds: f64,
    /// Processor time of its thread.
    pub processor_seconds: f64,
}

/// One row of each kind, as the hub wrote it.
#[derive(Debug)]
struct Samples {
    tenant: Value,
    event: Bytes,
    payload: Bytes,
    outcome: Bytes,
    claim: Bytes,
    index: Bytes,
}

/// Writes into the keyspace `to` for `span` what the hub has written into `from`, on a thread of its own.
///
/// # Errors
/// When the server refuses something, or the hub has written nothing that can be read.
pub async fn run(
    server: CqlServer,
    (from, to): (String, String),
    shape: Shape,
    span: Duration,
    clock: Clock,
) -> Result<BareCql, Failure> {
    let (sender, answer) = channel::reply();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let ran = runtime
            .map_err(Failure::io("a thread for CQL"))
            .and_then(|runtime| runtime.block_on(run_here(&server, (&from, &to), shape, (span, clock))));
        // Whoever asked may have been interrupted.
        let _ = sender.send(ran);
    });
    let reason = || Failure::Thread { name: "bare loop", reason: "it panicked".to_owned() };
    answer.recv_async().await.map_err(|_| reason())?
}

/// What all slots share.
struct Loop {
    session: Session,
    statements: BTreeMap<Statement, PreparedStatement>,
    samples: Samples,
    shape: Shape,
    clock: Clock,
    end: Time,
    done: Cell<BareCql>,
}

async fn run_here(
    server: &CqlServer,
    (from, to): (&str, &str),
    shape: Shape,
    (span, clock): (Duration, Clock),
) -> Result<BareCql, Failure> {
    let session = server.connect().await?;
    let samples = Samples::read(&session, from, &shape).await?;
    let mut statements = BTreeMap::new();
    for statement in STATEMENTS {
        let prepared = session.prepare(qualified(statement.text(), to)).await.map_err(cql)?;
        statements.insert(statement, prepared);
    }
    let begun = clock.now();
    let end = begun + crate::drive::micros(span);
    let slots = shape.slots.clone();
    let work = Rc::new(Loop { session, statements, samples, shape, clock, end, done: Cell::default() });
    let before = own_thread_seconds();
    let local = tokio::task::LocalSet::new();
    let running: Vec<_> = slots.iter().map(|slot| local.spawn_local(Unit::new(&work, *slot).run())).collect();
    local.await;
    for unit in running {
        unit.await.map_err(|panic| Failure::Thread { name: "bare loop", reason: panic.to_string() })??;
    }
    Ok(BareCql {
        seconds: clock.now().since(begun).to_std().as_secs_f64(),
        processor_seconds: own_thread_seconds() - before,
        ..work.done.get()
    })
}

type LogRow = (i32, i8, Option<Vec<u8>>, Option<Vec<u8>>);

impl Samples {
    async fn read(session: &Session, keyspace: &str, shape: &Shape) -> Result<Self, Failure> {
        let slot = i32::from(shape.slots[0].0);
        let text = format!(
            "SELECT ordinal, kind, value, payload FROM {keyspace}.log WHERE slot = ? AND chunk = 0 LIMIT {SAMPLE_ROWS}"
        );
        let answer = session.query_unpaged(text, (slot,)).await.map_err(cql)?.into_rows_result().map_err(cql)?;
        let rows = answer.rows::<LogRow>().map_err(cql)?.collect::<Result<Vec<_>, _>>().map_err(cql)?;
        let text = format!("SELECT value FROM {keyspace}.tenant_index WHERE slot = ? AND chunk = 0 LIMIT 1");
        let answer = session.query_unpaged(text, (slot,)).await.map_err(cql)?.into_rows_result().map_err(cql)?;
        let index = answer.rows::<(Vec<u8>,)>().map_err(cql)?.next().transpose().map_err(cql)?;
        let of = |kind: i8, rows: &[LogRow]| rows.iter().find(|row| row.1 == kind).cloned();
        let (event, outcome) = (Part::EVENT.kind, Part::attempt(0, 1, false).kind);
        let (event, outcome) = of(event, &rows).zip(of(outcome, &rows)).ok_or_else(|| cql("the log is empty"))?;
        let claim = of(Part::claim(0, 1).kind, &rows).and_then(|row| row.2).unwrap_or_else(|| vec![0; 24]);
        Ok(Self {
            tenant: Value::Text(shape.tenant.as_str().into()),
            index: index.map(|(value,)| value).or_else(|| event.2.clone()).unwrap_or_default().into(),
            event: event.2.unwrap_or_default().into(),
            payload: event.3.unwrap_or_default().into(),
            outcome: outcome.2.unwrap_or_default().into(),
            claim: claim.into(),
        })
    }
}

/// One row of a partition.
type Row = (Statement, Vec<Value>);

/// A slot's turn after turn.
struct Unit {
    work: Rc<Loop>,
    slot: Slot,
    /// The next event, and the next outcome.
    next: u64,
    outcome: u64,
    /// Events, and claims, that the next turn may still write.
    allowance: f64,
    claims: f64,
    behind: Vec<Row>,
    behind_at: Time,
}

impl Unit {
    fn new(work: &Rc<Loop>, slot: Slot) -> Self {
        let behind_at = work.clock.now() + crate::drive::micros(BEHIND);
        let work = Rc::clone(work);
        Self { work, slot, next: 0, outcome: 0, allowance: 0.0, claims: 0.0, behind: Vec::new(), behind_at }
    }

    async fn run(mut self) -> Result<(), Failure> {
        while self.work.clock.now() < self.work.end {
            self.turn().await?;
        }
        Ok(())
    }

    /// A batch: new events beside the outcomes of former ones, then what is written behind when it is time. Below one
    /// event a batch, events and outcomes take turns.
    async fn turn(&mut self) -> Result<(), Failure> {
        self.allowance += self.work.shape.events_per_batch * 2.0;
        let (mut log, mut claims): (BTreeMap<u64, Vec<Row>>, Vec<Row>) = Default::default();
        let mut ended = 0;
        while self.allowance >= 1.0 {
            self.allowance -= 1.0;
            if self.next > self.outcome {
                self.put_outcome(&mut log);
                ended += 1;
            } else {
                self.put_event(&mut log, &mut claims);
            }
        }
        self.write(log.into_values().chain([claims])).await?;
        self.work.count(|done| done.events += ended);
        self.write_behind().await
    }

    fn put_event(&mut self, log: &mut BTreeMap<u64, Vec<Row>>, claims: &mut Vec<Row>) {
        let (work, sequence) = (Rc::clone(&self.work), Sequence(self.next));
        let samples = &work.samples;
        let rows = log.entry(log_chunk(sequence)).or_default();
        rows.push(self.log_row(sequence, Part::EVENT, &samples.event));
        let mut payload = self.log_key(sequence, Part::EVENT);
        payload.push(Value::Blob(samples.payload.clone()));
        rows.push((Statement::PutLogPayload, self.lasting(payload)));
        self.claims += work.shape.claims_per_event;
        if self.claims >= 1.0 {
            self.claims -= 1.0;
            rows.push(self.log_row(sequence, Part::claim(0, 1), &samples.claim));
            let place = Value::Int(i32::try_from(claims.len()).expect("a batch is small"));
            let key = vec![Value::slot(self.slot), Value::Long(1), place, Value::long(self.next), Value::Int(0)];
            let values = key.into_iter().chain([samples.tenant.clone()]).collect();
            claims.push((Statement::PutClaim, self.lasting(values)));
        }
        let mut index = Partition::Index(self.slot, index_chunk(sequence)).key();
        index.extend([samples.tenant.clone(), Value::long(self.next), Value::Blob(samples.index.clone())]);
        self.behind.push((Statement::PutIndex, self.lasting(index)));
        self.next += 1;
    }

    fn put_outcome(&mut self, log: &mut BTreeMap<u64, Vec<Row>>) {
        let sequence = Sequence(self.outcome);
        let row = self.log_row(sequence, Part::attempt(0, 1, false), &self.work.samples.outcome);
        log.entry(log_chunk(sequence)).or_default().push(row);
        self.outcome += 1;
    }

    async fn write_behind(&mut self) -> Result<(), Failure> {
        let now = self.work.clock.now();
        if now < self.behind_at || self.behind.is_empty() {
            return Ok(());
        }
        self.behind_at = now + crate::drive::micros(BEHIND);
        let index = std::mem::take(&mut self.behind);
        let pack = Value::Blob(vec![0; index.len() * ID_BYTES].into());
        let mut ids = Partition::Ids(self.slot, now.as_minutes()).key();
        ids.extend([Value::long(self.next), Value::Long(1), pack]);
        self.write([index, vec![(Statement::PutIds, self.lasting(ids))]]).await?;
        let record = Value::Blob(vec![0; RECORD_BYTES].into());
        let values = vec![self.stamp(), record, Value::slot(self.slot), Value::Long(1)];
        self.write([vec![(Statement::PutSlot, values)]]).await
    }

    /// Writes rows of several partitions side by side, each in pieces of the size that the hub sends.
    async fn write(&self, partitions: impl IntoIterator<Item = Vec<Row>>) -> Result<(), Failure> {
        let mut running = Vec::new();
        for rows in partitions {
            for piece in cut(rows) {
                let work = Rc::clone(&self.work);
                running.push(tokio::task::spawn_local(async move { work.send(piece).await }));
            }
        }
        for write in running {
            write.await.map_err(|panic| Failure::Thread { name: "bare loop", reason: panic.to_string() })??;
        }
        Ok(())
    }

    fn log_row(&self, sequence: Sequence, part: Part, value: &Bytes) -> Row {
        let mut values = self.log_key(sequence, part);
        values.extend([self.work.samples.tenant.clone(), Value::Blob(value.clone())]);
        (Statement::PutLog, self.lasting(values))
    }

    fn log_key(&self, sequence: Sequence, part: Part) -> Vec<Value> {
        let mut values = Partition::Log(self.slot, log_chunk(sequence)).key();
        values.push(Value::long(sequence.0));
        values.extend(part.values());
        values.push(Value::Long(1));
        values
    }

    fn lasting(&self, mut values: Vec<Value>) -> Vec<Value> {
        values.extend([TTL, self.stamp()]);
        values
    }

    fn stamp(&self) -> Value {
        Value::long(self.work.clock.now().0)
    }
}

/// As `store::scylla::phase` cuts: rows of an event stay together in the hub, which here is of no account.
fn cut(rows: Vec<Row>) -> Vec<Vec<Row>> {
    let mut pieces: Vec<Vec<Row>> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        let size: usize = row.1.iter().map(Value::weight).sum();
        match pieces.last_mut() {
            Some(last) if bytes + size <= limits::CQL_WRITE_BYTES && last.len() < limits::CQL_WRITE_ROWS => {
                last.push(row);
                bytes += size;
            }
            Some(_) | None => {
                pieces.push(vec![row]);
                bytes = size;
            }
        }
    }
    pieces
}

impl Loop {
    async fn send(&self, rows: Vec<Row>) -> Result<(), Failure> {
        self.count(|done| {
            done.requests += 1;
            done.rows += rows.len() as u64;
        });
        if let [(statement, values)] = rows.as_slice() {
            return self.session.execute_unpaged(&self.statements[statement], values).await.map(drop).map_err(cql);
        }
        let mut batch = Batch::new(BatchType::Unlogged);
        let mut bound = Vec::with_capacity(rows.len());
        for (statement, values) in rows {
            batch.append_statement(self.statements[&statement].clone());
            bound.push(values);
        }
        self.session.batch(&batch, bound).await.map(drop).map_err(cql)
    }

    fn count(&self, change: impl FnOnce(&mut BareCql)) {
        let mut done = self.done.get();
        change(&mut done);
        self.done.set(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_as_the_hub_cuts_them() {
        let row = |bytes: usize| (Statement::PutLog, vec![Value::Blob(vec![0; bytes].into())]);
        let sizes = |rows| cut(rows).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(Vec::new()), [0; 0]);
        assert_eq!(sizes((0..=limits::CQL_WRITE_ROWS).map(|_| row(1)).collect()), [limits::CQL_WRITE_ROWS, 1]);
        let half = limits::CQL_WRITE_BYTES / 2;
        assert_eq!(sizes(vec![row(half), row(half), row(1)]), [2, 1]);
    }
}
