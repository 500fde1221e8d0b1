//! Whose the consumer group is, as pure decisions.
//!
//! An embedded hub has its group to itself: two stores that share one would each keep a part of a tenant's events.
//! A group belongs to the data directory whose id stands in its commits. The id travels with a copy or a restored
//! backup, so these need nothing; a fresh directory on another's group is refused until the operator names the one it
//! takes over ([`Identity::takes_over`]). Live members are told apart by their client id, which has the directory's id
//! and the time the process began. The newcomer gives way: a hub that has committed goes on.

use std::collections::BTreeSet;

use super::settings::Membership;
use crate::types::Time;

/// What begins every hub's client id.
const CLIENT: &str = "streaming-hub";

/// Who this hub is to its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The data directory's id.
    pub(super) hub: String,
    /// When this process began, to tell a copy of the directory apart.
    pub(super) began: Time,
    /// The directory whose group this one may take over.
    pub(super) takes_over: Option<String>,
    /// Whether others of the same id belong to the group as well.
    pub(super) membership: Membership,
}

/// A live member of the group beside this one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Member {
    /// A hub: when it began, and its directory's id, as its client id says. The earlier comes first.
    Hub(u64, String),
    /// Something else, by its client id.
    Stranger(String),
}

/// What is known of the group when partitions come.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The ids in the commits of all followed partitions; of the assigned ones alone where the rest is not known.
    pub(super) claims: BTreeSet<String>,
    /// Live members beside this one; none where they are not known.
    pub(super) others: BTreeSet<Member>,
    /// This process has committed already.
    pub(super) has_committed: Committed,
}

/// Whether this process has committed to the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Committed {
    #[default]
    NotYet,
    Already,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The group is this hub's alone.
    Alone,
    /// It is this hub's; the other one is about to give way.
    Shared(String),
    /// It is another's.
    Taken(By),
}

/// Who has the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The data directory of this id has committed to it.
    Commits(String),
    /// This live member is in it.
    Member(String),
}

/// The group is another's: this hub must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the Kafka group `{group}` ({setting}) is {}, and this one's {} is {hub}: {}",
    self.by.told(self.membership), named(self.membership), self.advice()
)]
pub struct GroupTaken {
    /// The group's setting.
    pub setting: &'static str,
    /// The group.
    pub group: String,
    /// This hub's id.
    pub hub: String,
    /// Whether it stands for one process or for the nodes of a cluster.
    pub membership: Membership,
    /// Who has it.
    pub by: By,
}

impl GroupTaken {
    fn advice(&self) -> String {
        let setting = self.setting;
        match self.membership {
            Membership::One => format!(
                "one group has one hub. Nothing is lost. Start the hub on its own data directory or a restored backup of \
                 it, or set {setting} to a group of its own, or, if the other one is gone for good, name its data \
                 directory's id in kafka.take_over"
            ),
            Membership::Nodes => format!(
                "one group has the nodes of one cluster. Nothing is lost. Start the node on the keyspace of its own \
                 cluster (store.scylla_keyspace), or give this cluster groups and a slot topic of its own: {setting}, \
                 kafka.slot_topic"
            ),
        }
    }
}

/// What an id stands for.
const fn named(membership: Membership) -> &'static str {
    match membership {
        Membership::One => "data directory",
        Membership::Nodes => "deployment",
    }
}

impl By {
    fn told(&self, membership: Membership) -> String {
        match self {
            Self::Commits(hub) => format!("that of {} {}", named(membership), hub.escape_debug()),
            Self::Member(member) => format!("in use by {member}"),
        }
    }
}

impl Identity {
    /// The client id that others know this hub by.
    pub(super) fn client_id(&self) -> String {
        format!("{CLIENT}.{}.{:016x}", self.hub, self.began.0)
    }

    fn member(&self) -> Member {
        Member::Hub(self.began.0, self.hub.clone())
    }

    /// Whose the group is.
    pub(super) fn judge(&self, group: &Group) -> Verdict {
        let is_foreign = |id: &&String| **id != self.hub && Some(*id) != self.takes_over.as_ref();
        if let Some(id) = group.claims.iter().find(is_foreign) {
            return Verdict::Taken(By::Commits(id.clone()));
        }
        let is_foreign = |other: &&Member| self.membership == Membership::One || !other.is_of(&self.hub);
        let Some(other) = group.others.iter().find(is_foreign) else { return Verdict::Alone };
        if group.has_committed == Committed::Already {
            return Verdict::Shared(other.to_string());
        }
        if let Some(owner) = group.others.iter().filter(is_foreign).find(|other| other.has_claimed(&group.claims)) {
            return Verdict::Taken(By::Member(owner.to_string()));
        }
        if let Some(stranger) = group.others.iter().find(|other| matches!(other, Member::Stranger(_))) {
            return Verdict::Taken(By::Member(stranger.to_string()));
        }
        // Both are new to the group, or the other one is to a group that is ours; both see the same: one stays.
        let stays = group.claims.contains(&self.hub) || self.member() < *other;
        if stays { Verdict::Shared(other.to_string()) } else { Verdict::Taken(By::Member(other.to_string())) }
    }
}

impl Member {
    /// The member of this client id.
    pub(super) fn of(client_id: &str) -> Self {
        let parts = client_id.strip_prefix(CLIENT).and_then(|rest| rest.strip_prefix('.')?.rsplit_once('.'));
        let hub = parts.and_then(|(hub, began)| Some((hub, u64::from_str_radix(began, 16).ok()?)));
        hub.map_or_else(|| Self::Stranger(client_id.to_owned()), |(hub, began)| Self::Hub(began, hub.to_owned()))
    }

    fn is_of(&self, hub: &str) -> bool {
        matches!(self, Self::Hub(_, own) if own == hub)
    }

    fn has_claimed(&self, claims: &BTreeSet<String>) -> bool {
        match self {
            Self::Hub(_, hub) => claims.contains(hub),
            Self::Stranger(_) => false,
        }
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hub(_, hub) => write!(f, "the hub {hub}"),
            Self::Stranger(client) => write!(f, "the client `{}`", client.escape_debug()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(hub: &str, began: u64) -> Identity {
        Identity { hub: hub.to_owned(), began: Time(began), takes_over: None, membership: Membership::One }
    }

    fn group(claims: &[&str], others: &[&Identity], has_committed: Committed) -> Group {
        Group {
            claims: claims.iter().map(|id| (*id).to_owned()).collect(),
            others: others.iter().map(|other| Member::of(&other.client_id())).collect(),
            has_committed,
        }
    }

    fn is_taken(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Taken(_))
    }

    #[test]
    fn a_group_is_whose_id_stands_in_its_commits() {
        let hub = identity("b", 1);
        assert_eq!(hub.judge(&group(&[], &[], Committed::NotYet)), Verdict::Alone);
        assert_eq!(hub.judge(&group(&["b"], &[], Committed::NotYet)), Verdict::Alone);
        let taken = Verdict::Taken(By::Commits("a".to_owned()));
        assert_eq!(hub.judge(&group(&["a", "b"], &[], Committed::Already)), taken);
    }

    #[test]
    fn a_group_is_taken_over_from_the_one_that_is_named_and_gone() {
        let former = identity("a", 1);
        let heir = Identity { takes_over: Some("a".to_owned()), ..identity("b", 2) };
        assert_eq!(heir.judge(&group(&["a"], &[], Committed::NotYet)), Verdict::Alone);
        assert!(is_taken(&heir.judge(&group(&["a"], &[&former], Committed::NotYet))), "it is alive");
        assert!(is_taken(&heir.judge(&group(&["c"], &[], Committed::NotYet))), "another one was named");
    }

    #[test]
    fn the_newcomer_gives_way_whatever_its_id() {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let (first, second) = (identity(first, 1), identity(second, 2));
            let claims = [first.hub.as_str()];
            assert!(!is_taken(&first.judge(&group(&claims, &[&second], Committed::Already))));
            assert!(!is_taken(&first.judge(&group(&claims, &[&second], Committed::NotYet))), "after a restart");
            assert!(is_taken(&second.judge(&group(&claims, &[&first], Committed::NotYet))));
        }
    }

    #[test]
    fn of_two_that_begin_at_once_exactly_one_stays() {
        for (one, other) in [(identity("a", 9), identity("b", 1)), (identity("a", 1), identity("a", 2))] {
            let verdicts =
                [(&one, &other), (&other, &one)].map(|(own, seen)| own.judge(&group(&[], &[seen], Committed::NotYet)));
            assert_eq!(verdicts.iter().filter(|verdict| is_taken(verdict)).count(), 1, "{verdicts:?}");
        }
    }

    #[test]
    fn a_second_process_on_a_copy_of_the_directory_gives_way() {
        let (first, copy) = (identity("a", 1), identity("a", 2));
        assert!(!is_taken(&first.judge(&group(&["a"], &[&copy], Committed::Already))));
        assert!(is_taken(&copy.judge(&group(&["a"], &[&first], Committed::NotYet))));
    }

    #[test]
    fn the_nodes_of_one_deployment_share_a_group_and_no_other_does() {
        let node = |hub, began| Identity { membership: Membership::Nodes, ..identity(hub, began) };
        let (first, second, stranger) = (node("a", 1), node("a", 2), node("b", 3));
        assert_eq!(first.judge(&group(&["a"], &[&second], Committed::Already)), Verdict::Alone);
        assert_eq!(second.judge(&group(&["a"], &[&first], Committed::NotYet)), Verdict::Alone);
        assert!(is_taken(&stranger.judge(&group(&["a"], &[&first], Committed::NotYet))), "its commits are another's");
        assert!(
            is_taken(&second.judge(&group(&[], &[&first, &stranger], Committed::NotYet)))
                != is_taken(&stranger.judge(&group(&[], &[&first, &second], Committed::NotYet))),
            "one deployment stays"
        );
    }

    #[test]
    fn client_ids_are_read_back_and_others_are_strangers() {
        let hub = identity("0f8b6f0e-1c1d-4d55-9d1f-0b1e3c9a7a10", 77);
        assert_eq!(Member::of(&hub.client_id()), hub.member());
        assert_eq!(Member::of("streaming-hub"), Member::Stranger("streaming-hub".to_owned()));
        assert!(is_taken(&hub.judge(&Group { others: BTreeSet::from([Member::of("kcat")]), ..Group::default() })));
    }
}
