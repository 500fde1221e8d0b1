//! A record of a producer's `.dlq` topic → what it says, for observation only.
//!
//! Total and lenient: whatever cannot be read is absent, whatever is too long is cut, what is not UTF-8 is shown
//! with replacement characters. Where a header is repeated, the last one, which is the latest failure, counts.

use super::decode::RawRecord;
use super::text::cut;
use crate::types::{ProducerDeadLetter, Time, limits};

const PREFIX: &[u8] = b"x-lerian-dlq-";

/// What `record`, met at `now`, says.
#[must_use]
pub fn dead_letter(record: &RawRecord<'_>, now: Time) -> ProducerDeadLetter {
    let mut letter = empty(record, now);
    for &(header, value) in record.headers {
        let Some(value) = value else { continue };
        match (header, header.strip_prefix(PREFIX)) {
            (b"ce-tenantid", _) => letter.tenant = Some(text(value)),
            (b"ce-id", _) => letter.event_id = Some(text(value)),
            (_, Some(field)) => fill(&mut letter, field, value),
            (_, None) => {}
        }
    }
    letter
}

fn fill(letter: &mut ProducerDeadLetter, field: &[u8], value: &[u8]) {
    match field {
        b"source-topic" => letter.source_topic = Some(text(value)),
        b"source-partition" => letter.source_partition = parsed(value),
        b"source-offset" => letter.source_offset = parsed(value),
        b"error-class" => letter.error_class = Some(text(value)),
        b"error-message" => letter.error_message = Some(bounded(value, limits::DEAD_LETTER_MESSAGE_MAX_BYTES)),
        b"cause-kind" => letter.cause_kind = Some(text(value)),
        b"retry-count" => letter.retry_count = parsed(value),
        b"first-failure-at" => letter.first_failure_at = Some(text(value)),
        b"producer-id" => letter.producer_id = Some(text(value)),
        b"payload-omitted" => letter.payload_omitted = parsed(value),
        b"payload-bytes" => letter.payload_bytes = parsed(value),
        _ => {}
    }
}

fn empty(record: &RawRecord<'_>, now: Time) -> ProducerDeadLetter {
    ProducerDeadLetter {
        topic: record.topic.into(),
        partition: record.partition,
        offset: record.offset,
        received_at: now,
        tenant: None,
        event_id: None,
        source_topic: None,
        source_partition: None,
        source_offset: None,
        error_class: None,
        error_message: None,
        cause_kind: None,
        retry_count: None,
        first_failure_at: None,
        producer_id: None,
        payload_omitted: None,
        payload_bytes: None,
    }
}

fn text(value: &[u8]) -> Box<str> {
    bounded(value, limits::DEAD_LETTER_TEXT_MAX_BYTES)
}

/// Cut first, so that a large value costs no more than its bound; a character cut in two is dropped.
fn bounded(value: &[u8], max_bytes: usize) -> Box<str> {
    let kept = &value[..value.len().min(max_bytes)];
    let was_cut = kept.len() < value.len();
    let whole = match std::str::from_utf8(kept) {
        Err(error) if was_cut && error.error_len().is_none() => &kept[..error.valid_up_to()],
        Ok(_) | Err(_) => kept,
    };
    cut(&String::from_utf8_lossy(whole), max_bytes).into()
}

fn parsed<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::LaneName;

    fn parse(headers: &[(&str, &[u8])]) -> ProducerDeadLetter {
        let headers: Vec<(&[u8], Option<&[u8]>)> =
            headers.iter().map(|(name, value)| (name.as_bytes(), Some(*value))).collect();
        let lane = LaneName::kafka("lerian.streaming.loans.dlq", 1);
        let record = RawRecord {
            lane: &lane,
            topic: "lerian.streaming.loans.dlq",
            partition: 1,
            offset: 9,
            headers: &headers,
            key: None,
            payload: None,
        };
        dead_letter(&record, Time::from_millis(1_645_557_742_000))
    }

    #[test]
    fn all_headers_come_out_in_the_shape_of_the_api() {
        let letter = parse(&[
            ("ce-tenantid", b"t1"),
            ("ce-id", b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
            ("x-lerian-dlq-source-topic", b"lerian.streaming.loans"),
            ("x-lerian-dlq-error-class", b"broker"),
            ("x-lerian-dlq-error-message", b"timed out"),
            ("x-lerian-dlq-retry-count", b"3"),
            ("x-lerian-dlq-first-failure-at", b"2026-01-01T00:00:00Z"),
            ("x-lerian-dlq-producer-id", b"p-1"),
            ("x-lerian-dlq-source-partition", b"4"),
            ("x-lerian-dlq-source-offset", b"-1"),
            ("x-lerian-dlq-cause-kind", b"network"),
            ("x-lerian-dlq-payload-omitted", b"true"),
            ("x-lerian-dlq-payload-bytes", b"123"),
        ]);
        let shape = serde_json::json!({
            "topic": "lerian.streaming.loans.dlq", "partition": 1, "offset": 9, "received_at": "2022-02-22T19:22:22.000Z",
            "tenant": "t1", "event_id": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "source_topic": "lerian.streaming.loans",
            "source_partition": 4, "source_offset": -1, "error_class": "broker", "error_message": "timed out",
            "cause_kind": "network", "retry_count": 3, "first_failure_at": "2026-01-01T00:00:00Z", "producer_id": "p-1",
            "payload_omitted": true, "payload_bytes": 123,
        });
        assert_eq!(serde_json::to_value(&letter).expect("plain values"), shape);
        assert_eq!(serde_json::from_value::<ProducerDeadLetter>(shape).expect("its own shape"), letter);
    }

    #[test]
    fn what_cannot_be_read_is_absent_or_cut() {
        let long = "é".repeat(4000);
        let letter = parse(&[
            ("x-lerian-dlq-retry-count", b"many"),
            ("x-lerian-dlq-payload-omitted", b"perhaps"),
            ("x-lerian-dlq-error-class", &[0x80, b'a']),
            ("x-lerian-dlq-producer-id", b"old"),
            ("x-lerian-dlq-producer-id", b"new"),
            ("x-lerian-dlq-error-message", long.as_bytes()),
            ("X-Lerian-Dlq-Cause-Kind", b"other name"),
        ]);
        assert_eq!((letter.retry_count, letter.payload_omitted, letter.cause_kind), (None, None, None));
        assert_eq!(letter.error_class.as_deref(), Some("\u{fffd}a"));
        assert_eq!(letter.producer_id.as_deref(), Some("new"));
        assert_eq!(letter.error_message.as_deref(), Some(&*"é".repeat(2048)));
    }

    proptest! {
        #[test]
        fn texts_stay_within_their_bounds(value in prop::collection::vec(any::<u8>(), 0..9000)) {
            let letter = parse(&[("x-lerian-dlq-error-message", &value), ("ce-id", &value)]);
            prop_assert!(letter.error_message.is_some_and(|text| text.len() <= 4096));
            prop_assert!(letter.event_id.is_some_and(|text| text.len() <= 256));
        }
    }
}
