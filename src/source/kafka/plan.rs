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
    /// What the group has, if it stands there under this hub's id; otherwise it is committed anew.
    pub(super) committed: Option<u64>,
    pub(super) alarms: Vec<KafkaAlarm>,
}

/// What the group knows of one partition.
#[derive(Debug)]
pub(super) struct Committed {
    position: Option<u64>,
    /// The id of the hub that wrote it, as far as it is UTF-8; empty where a tool did.
    pub(super) hub: String,
}

/// A plan for each of `partitions`, of which the group knows `committed`, or why it can't be made now.
///
/// A range that cannot be learnt holds up only lanes without a position; the others begin where they should, and
/// after the first failure the brokers are not asked again, so that the whole takes a bounded time.
pub(super) fn plan(
    client: &Client,
    partitions: &[Partition],
    mut committed: BTreeMap<Partition, Committed>,
    stored: Option<&StoredPosition>,
    hub_id: &str,
) -> Result<Vec<Plan>, String> {
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
    let is_own = committed.hub == hub_id;
    if !committed.hub.is_empty() && !is_own {
        alarms.push(KafkaAlarm::TakenOver { lane: name.clone(), hub: committed.hub.clone() });
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
    let committed = committed.position.filter(|_| is_own);
    Ok(Plan { partition: partition.clone(), name, position, committed, alarms })
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

/// What the group knows of each partition. Keyed, since the client may sort its lists.
pub(super) fn committed(client: &Client, partitions: &[Partition]) -> Result<BTreeMap<Partition, Committed>, String> {
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
            let hub = String::from_utf8_lossy(&metadata).into_owned();
            Ok((partition, Committed { position: numbered(element.offset()), hub }))
        })
        .collect()
}

fn numbered(offset: Offset) -> Option<u64> {
    match offset {
        Offset::Offset(offset) => u64::try_from(offset).ok(),
        Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => None,
    }
}
