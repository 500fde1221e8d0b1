//! A page of a tenant's queue: which events, from the tenants' index and from what it does not have yet; then the
//! events themselves, from the log.

use std::sync::Arc;

use scylla::response::PagingState;

use super::event::Found;
use super::{Ahead, ReadError, event, sequence_of, together};
use crate::engine::ReadAnswer;
use crate::engine::rows::{LoggedEvent, Wanted};
use crate::store::codec;
use crate::store::scylla::plan::index_chunk;
use crate::store::scylla::query::Query;
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::types::{Sequence, Slot, TenantId, limits};

/// What [`crate::engine::Read::Queue`] asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) slot: Slot,
    pub(super) tenant: &'a TenantId,
    pub(super) from: Sequence,
    pub(super) to: Sequence,
    pub(super) wanted: &'a Wanted,
    pub(super) bytes_max: usize,
}

/// Which events a page may hold.
struct Scan {
    /// Wanted, in order.
    sequences: Vec<Sequence>,
    /// All up to and including this one was looked at.
    scanned_to: Sequence,
}

/// Answers it.
///
/// # Errors
/// [`ReadError`].
pub(super) async fn read(session: &Arc<Session>, asked: Asked<'_>, ahead: Ahead) -> Result<ReadAnswer, ReadError> {
    if asked.from > asked.to {
        return Ok(ReadAnswer::Queue { events: Vec::new(), scanned_to: asked.to });
    }
    let scan = scan(session, asked, ahead).await?;
    let mut events: Vec<LoggedEvent> = Vec::new();
    let mut taken_bytes = 0;
    for group in scan.sequences.chunks(limits::CQL_READS_AT_ONCE) {
        let reads = group.iter().copied().map(|sequence| read_event(Arc::clone(session), asked.slot, sequence));
        for (sequence, found) in together(reads).await? {
            let Some(found) = found.filter(|found| found.is_of(asked.tenant)) else { continue };
            let (logged, _) = found.with_payload_if_open(session).await?;
            taken_bytes += logged.event.weight();
            events.push(logged);
            if taken_bytes >= asked.bytes_max.min(limits::SCAN_MAX_BYTES) {
                return Ok(ReadAnswer::Queue { events, scanned_to: sequence });
            }
        }
    }
    Ok(ReadAnswer::Queue { events, scanned_to: scan.scanned_to })
}

/// Looks through the index chunk by chunk, then through what it does not have yet.
async fn scan(session: &Session, asked: Asked<'_>, ahead: Ahead) -> Result<Scan, ReadError> {
    let mut scan = Scan { sequences: Vec::new(), scanned_to: asked.to };
    let mut looked_at = 0;
    if asked.from < ahead.indexed_below {
        let last = Sequence(asked.to.0.min(ahead.indexed_below.0 - 1));
        let (first_chunk, last_chunk) = (index_chunk(asked.from), index_chunk(last));
        for chunk in first_chunk..=last_chunk {
            if let Some(full) = scan_chunk(session, asked, (chunk, last), &mut scan, &mut looked_at).await? {
                scan.scanned_to = full;
                return Ok(scan);
            }
            if chunk < last_chunk && chunk - first_chunk + 1 >= limits::CQL_INDEX_CHUNKS_PER_PAGE {
                scan.scanned_to = Sequence((chunk + 1) * limits::CQL_INDEX_CHUNK_EVENTS - 1);
                return Ok(scan);
            }
        }
    }
    for sequence in ahead.pending {
        if scan.sequences.len() >= limits::LOG_PAGE_EVENTS {
            scan.scanned_to = Sequence(sequence.0 - 1);
            return Ok(scan);
        }
        scan.sequences.push(sequence);
    }
    Ok(scan)
}

/// Looks through one chunk; where the page ended, if it is full.
async fn scan_chunk(
    session: &Session,
    asked: Asked<'_>,
    (chunk, last): (u64, Sequence),
    scan: &mut Scan,
    looked_at: &mut usize,
) -> Result<Option<Sequence>, ReadError> {
    let values = [
        Value::slot(asked.slot),
        Value::long(chunk),
        Value::tenant(asked.tenant),
        Value::long(asked.from.0),
        Value::long(last.0),
    ];
    let mut page = PagingState::start();
    loop {
        let (rows, more): (Vec<(i64, Vec<u8>)>, _) = session.page(Query::Index, &values, page).await?;
        for (sequence, head) in rows {
            let sequence = sequence_of(sequence)?;
            let row = codec::event::decode(asked.tenant, sequence, &head)?;
            if row.jobs.iter().any(|job| asked.wanted.is_met(sequence, job.subscription)) {
                scan.sequences.push(sequence);
            }
            *looked_at += 1;
            if scan.sequences.len() >= limits::LOG_PAGE_EVENTS || *looked_at >= limits::SCAN_MAX_EVENTS {
                return Ok(Some(sequence));
            }
        }
        match more {
            Some(state) => page = state,
            None => return Ok(None),
        }
    }
}

async fn read_event(
    session: Arc<Session>,
    slot: Slot,
    sequence: Sequence,
) -> Result<(Sequence, Option<Found>), ReadError> {
    Ok((sequence, event::read(&session, slot, sequence).await?))
}
