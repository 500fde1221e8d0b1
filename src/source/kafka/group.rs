//! Asks the brokers who is in the group and who has committed to it.

use std::collections::{BTreeMap, BTreeSet};

use rdkafka::consumer::Consumer as _;

use super::client::Client;
use super::context::Partition;
use super::ownership::{Committed as HasCommitted, Group, Member};
use super::plan::{self, Committed};
use super::settings::{KafkaSettings, MemberList};
use crate::source::topic::Followed;
use crate::types::limits;

/// What is known of the group beyond the commits of the partitions that have just come.
///
/// The member list is a luxury: brokers that do not give it leave the commits to decide. But where others are seen,
/// the commits of all followed partitions have to be known.
pub(super) fn look(
    client: &Client,
    settings: &KafkaSettings,
    own_client_id: &str,
    came: &BTreeMap<Partition, Committed>,
    has_committed: HasCommitted,
) -> Result<Group, String> {
    let told = match settings.member_list {
        MemberList::Told => members(client, &settings.group, own_client_id),
        MemberList::Untold => Ok(BTreeSet::new()),
    };
    let others = told.unwrap_or_else(|error| {
        tracing::debug!(error, "the kafka group's members are not known");
        BTreeSet::new()
    });
    let mut claims = claims(came);
    if !others.is_empty() {
        claims.extend(self::claims(&plan::committed(client, &partitions_of(client, &settings.followed)?)?));
    }
    Ok(Group { claims, others, has_committed })
}

fn claims(committed: &BTreeMap<Partition, Committed>) -> BTreeSet<String> {
    committed.values().map(|committed| committed.hub.clone()).filter(|hub| !hub.is_empty()).collect()
}

fn members(client: &Client, group: &str, own_client_id: &str) -> Result<BTreeSet<Member>, String> {
    let timeout = limits::KAFKA_REQUEST_TIMEOUT.to_std();
    let list = client.fetch_group_list(Some(group), timeout).map_err(|error| error.to_string())?;
    let groups = list.groups().iter().filter(|found| found.name() == group);
    let others = groups.flat_map(|group| group.members()).filter(|member| member.client_id() != own_client_id);
    Ok(others.map(|member| Member::of(member.client_id())).collect())
}

/// Every partition of every topic that is followed.
fn partitions_of(client: &Client, followed: &Followed) -> Result<Vec<Partition>, String> {
    let metadata = client.fetch_metadata(None, limits::KAFKA_REQUEST_TIMEOUT.to_std());
    let metadata = metadata.map_err(|error| error.to_string())?;
    let topics = metadata.topics().iter().filter(|topic| followed.includes(topic.name()));
    let partitions =
        topics.flat_map(|topic| topic.partitions().iter().map(|partition| (topic.name().to_owned(), partition.id())));
    Ok(partitions.collect())
}
