//! What the client's safe interface does not offer.
//!
//! Header names and commit metadata are written by others and may not be UTF-8: the safe accessors unwrap, these read
//! the same memory as bytes. A commit's outcome comes back only when a queue for it is named. And a partition's end,
//! as the last fetch told it, costs no request here.

use std::ffi::{CStr, CString};
use std::ptr;

use rdkafka::TopicPartitionList;
use rdkafka::bindings::{
    rd_kafka_commit_queue, rd_kafka_get_watermark_offsets, rd_kafka_header_get_all, rd_kafka_message_headers,
    rd_kafka_queue_destroy, rd_kafka_queue_get_consumer,
};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR as NO_ERROR;

use super::client::Client;
use super::context::Partition;

/// One header: name and value as bytes.
pub(super) type RawHeader<'m> = (&'m [u8], Option<&'m [u8]>);

/// The headers of `message` in order.
pub(super) fn headers<'m>(message: &'m BorrowedMessage<'_>) -> Vec<RawHeader<'m>> {
    let mut list = ptr::null_mut();
    // SAFETY: the message is alive for 'm, and `list` is a valid place for the pointer to its headers.
    let error = unsafe { rd_kafka_message_headers(message.ptr(), &raw mut list) };
    if error != NO_ERROR {
        return Vec::new();
    }
    let mut headers = Vec::with_capacity(16);
    loop {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: `list` belongs to the message and lives as long as it; the index is checked by the callee,
        // which then gives an error; the others are valid places for its answers.
        let error =
            unsafe { rd_kafka_header_get_all(list, headers.len(), &raw mut name, &raw mut value, &raw mut size) };
        if error != NO_ERROR {
            return headers;
        }
        // SAFETY: on success the name is a NUL-terminated string inside the message's headers, alive for 'm.
        let name: &'m [u8] = unsafe { CStr::from_ptr(name) }.to_bytes();
        let value = (!value.is_null()).then(|| {
            // SAFETY: a value that is not null has `size` bytes inside the message's headers, alive for 'm.
            unsafe { std::slice::from_raw_parts::<'m, u8>(value.cast(), size) }
        });
        headers.push((name, value));
    }
}

/// The commit metadata of each element of `list`, in order; empty where there is none.
pub(super) fn commit_metadata(list: &TopicPartitionList) -> Vec<Vec<u8>> {
    let read = |index: usize| {
        // SAFETY: the list is alive and has `count` elements, of which this is one.
        let element = unsafe { &*(*list.ptr()).elems.add(index) };
        if element.metadata.is_null() {
            return Vec::new();
        }
        // SAFETY: metadata that is not null has `metadata_size` bytes, owned by the list.
        unsafe { std::slice::from_raw_parts::<u8>(element.metadata.cast(), element.metadata_size) }.to_vec()
    };
    (0..list.count()).map(read).collect()
}

/// Sends the commit of `list`; its outcome comes to the context's `commit_callback` when the client is polled.
pub(super) fn commit(client: &Client, list: &TopicPartitionList) -> Result<(), KafkaError> {
    let native = client.client().native_ptr();
    // SAFETY: the client is alive; the queue is a new reference, given back below.
    let queue = unsafe { rd_kafka_queue_get_consumer(native) };
    if queue.is_null() {
        return Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownGroup));
    }
    // SAFETY: client, list and queue are alive; the callee copies the list and takes its own reference to the queue.
    let error = unsafe { rd_kafka_commit_queue(native, list.ptr(), queue, None, ptr::null_mut()) };
    // SAFETY: the reference from above, not used again.
    unsafe { rd_kafka_queue_destroy(queue) };
    if error == NO_ERROR { Ok(()) } else { Err(KafkaError::ConsumerCommit(error.into())) }
}

/// The offset behind the last record of a partition, as the last fetch told it.
pub(super) fn known_end(client: &Client, (topic, partition): &Partition) -> Option<u64> {
    let topic = CString::new(topic.as_str()).ok()?;
    let native = client.client().native_ptr();
    let (mut low, mut high) = (-1, -1);
    // SAFETY: the client is alive, the topic is NUL-terminated, and both are valid places for the answers.
    let error =
        unsafe { rd_kafka_get_watermark_offsets(native, topic.as_ptr(), *partition, &raw mut low, &raw mut high) };
    if error == NO_ERROR { u64::try_from(high).ok() } else { None }
}
