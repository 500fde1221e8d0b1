//! What to begin each newly assigned partition with: asks the group, the store and the brokers.

use std::collections::BTreeMap;

use rdkafka::consumer::Consumer;
use rdkafka::{Offset, TopicPartitionList};

use super::client::Client;
use super::consumer::StoredPosition;
use super::context::Partition;
use super::start::{Start, nearest, start};
use super::{KafkaAlarm, native};
use crate::types::{LaneName, limits};

/// How one partition begins.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) partition: Partition,
    pub(super) name: LaneName,
    pub(super) position: u64,
    pub(super) committed: Option<u64>,
    pub(super) alarms: Vec<KafkaAlarm>,
}

/// What the group knows of one partition.
struct Committed {
    position: Option<u64>,
    metadata: Vec<u8>,
}

/// A plan for each of `partitions`, or why it can't be made now.
///
/// A range that cannot be learnt holds up only lanes without a position; the others begin where they should, and
/// after the first failure the brokers are not asked again, so that the whole takes a bounded time.
pub(super) fn plan(
    client: &Client,
    partitions: &[Partition],
    stored: Option<&StoredPosition>,
    hub_id: &str,
) -> Result<Vec<Plan>, String> {
    let mut committed = committed(client, partitions)?;
    let mut is_asking = true;
    let mut plans = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let committed = committed.remove(partition).ok_or("the group did not answer for all partitions")?;
        let range = if is_asking { range(client, partition) } else { Err("the brokers do not answer".to_owned()) };
        is_asking = range.is_ok();
        plans.push(plan_one(partition, &committed, range, stored, hub_id)?);
    }
    Ok(plans)
}

fn plan_one(
    partition: &Partition,
    committed: &Committed,
    range: Result<(u64, u64), String>,
    stored: Option<&StoredPosition>,
    hub_id: &str,
) -> Result<Plan, String> {
    let name = LaneName::kafka(&partition.0, partition.1);
    let mut alarms = Vec::new();
    if !committed.metadata.is_empty() && committed.metadata != hub_id.as_bytes() {
        let hub = String::from_utf8_lossy(&committed.metadata).into_owned();
        alarms.push(KafkaAlarm::ForeignCommit { lane: name.clone(), hub });
    }
    let wanted = match decide(&name, committed.position, stored)? {
        Start::At(position) => position,
        Start::AtOnlyOne(position) => {
            alarms.push(KafkaAlarm::OnePositionKnown { lane: name.clone(), position });
            position
        }
        Start::Beginning => range.clone()?.0,
    };
    let position = range.map_or(wanted, |(low, high)| nearest(wanted, low, high));
    if position != wanted {
        alarms.push(KafkaAlarm::Gap { lane: name.clone(), expected: wanted, resumed: position });
    }
    Ok(Plan { partition: partition.clone(), name, position, committed: committed.position, alarms })
}

/// The offsets of the first record and behind the last.
fn range(client: &Client, (topic, partition): &Partition) -> Result<(u64, u64), String> {
    let timeout = limits::KAFKA_REQUEST_TIMEOUT.to_std();
    let (low, high) = client.fetch_watermarks(topic, *partition, timeout).map_err(|error| error.to_string())?;
    Ok((u64::try_from(low).unwrap_or_default(), u64::try_from(high).unwrap_or_default()))
}

/// Without a store that keeps positions, the group's alone decides.
fn decide(name: &LaneName, committed: Option<u64>, stored: Option<&StoredPosition>) -> Result<Start, String> {
    let Some(stored) = stored else { return Ok(committed.map_or(Start::Beginning, Start::At)) };
    let stored = stored(name).map_err(|error| error.to_string())?;
    Ok(start(committed, stored))
}

/// Keyed, since the client may sort its lists.
fn committed(client: &Client, partitions: &[Partition]) -> Result<BTreeMap<Partition, Committed>, String> {
    if partitions.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        list.add_partition(topic, *partition);
    }
    let timeout = limits::KAFKA_REQUEST_TIMEOUT.to_std();
    let list = client.committed_offsets(list, timeout).map_err(|error| error.to_string())?;
    let metadata = native::commit_metadata(&list);
    let elements = list.elements();
    let pairs = elements.iter().zip(metadata);
    pairs
        .map(|(element, metadata)| {
            element.error().map_err(|error| error.to_string())?;
            let partition = (element.topic().to_owned(), element.partition());
            Ok((partition, Committed { position: numbered(element.offset()), metadata }))
        })
        .collect()
}

fn numbered(offset: Offset) -> Option<u64> {
    match offset {
        Offset::Offset(offset) => u64::try_from(offset).ok(),
        Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => None,
    }
}
