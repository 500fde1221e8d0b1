//! A malformed record as it is kept: bounded, with the whole body's size and hash.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{Fault, RawRecord};
use crate::engine::QuarantineRecord;
use crate::types::{Time, limits};

/// `record` with its fault. Headers are kept up to 64 KiB in all, the body up to 64 KiB.
pub(super) fn quarantine(record: &RawRecord<'_>, fault: Fault, now: Time) -> QuarantineRecord {
    let body = record.payload.unwrap_or_default();
    let kept = &body[..body.len().min(limits::QUARANTINE_BODY_BYTES)];
    QuarantineRecord {
        topic: record.topic.into(),
        partition: record.partition,
        offset: record.offset,
        received_at: now,
        reason: fault.reason.as_str(),
        header: fault.header,
        headers: kept_headers(record.headers),
        body: Bytes::copy_from_slice(kept),
        size: body.len() as u64,
        sha256: Sha256::digest(body).into(),
    }
}

/// The first headers, as many as fit.
fn kept_headers(headers: &[(&[u8], Option<&[u8]>)]) -> Vec<(Box<str>, Option<Bytes>)> {
    /// What an empty header costs, so that many of them are bounded too.
    const OVERHEAD_BYTES: usize = 16;
    let mut left = limits::QUARANTINE_HEADERS_BYTES;
    let fits = headers.iter().take_while(|(name, value)| {
        let cost = name.len() + value.map_or(0, <[u8]>::len) + OVERHEAD_BYTES;
        let fits = cost <= left;
        left = left.saturating_sub(cost);
        fits
    });
    fits.map(|(name, value)| (String::from_utf8_lossy(name).into(), value.map(Bytes::copy_from_slice))).collect()
}
