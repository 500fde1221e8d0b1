//! One tenant's index of live subscriptions: which of them want an event.
//!
//! Catalog-free: an event key needs no registration. Subscriptions are filed under each of their patterns, by
//! exact key, by resource, or under "any", so that those of other keys cost nothing. What is filed is
//! then judged in order of subscription: origin, source, schema major, filter.

use std::collections::{BTreeMap, HashMap};

use ahash::RandomState;

use crate::engine::filter::{Filter, PayloadView};
use crate::engine::work::Work;
use crate::types::subscription::EventPattern;
use crate::types::{Event, SourceId, Subscription, SubscriptionId};

/// The index. Hash maps are looked up by key only, never walked.
#[derive(Debug)]
pub struct Matcher {
    /// Where each subscription stands in `entries`.
    places: BTreeMap<SubscriptionId, u32>,
    /// Counts changes.
    version: u64,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    exact: HashMap<Box<str>, Vec<u32>, RandomState>,
    resources: HashMap<Box<str>, Vec<u32>, RandomState>,
    any: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    id: SubscriptionId,
    handle: u32,
    /// As filed; empty stands for "any".
    patterns: Box<[EventPattern]>,
    origin: Option<Box<str>>,
    source_id: Option<SourceId>,
    schema_major: Option<u32>,
    filter: Filter,
}

impl Entry {
    fn new(subscription: &Subscription, filter: Filter, handle: u32) -> Self {
        let mut patterns = subscription.event_types.clone();
        patterns.sort_unstable();
        patterns.dedup();
        Self {
            id: subscription.id,
            handle,
            patterns: patterns.into_boxed_slice(),
            origin: subscription.origin.as_deref().map(Box::from),
            source_id: subscription.source_id,
            schema_major: subscription.schema_major,
            filter,
        }
    }

    /// Goes on judging from the rule `next`; `None` when the work is spent before that is decided.
    fn wants(&self, event: &Event, view: &mut PayloadView, next: &mut usize, work: &mut Work) -> Option<bool> {
        if *next == 0 && !self.pins_hold(event) {
            return Some(false);
        }
        self.filter.go_on(event, view, next, work)
    }

    fn pins_hold(&self, event: &Event) -> bool {
        self.origin.as_deref().is_none_or(|origin| origin == event.origin())
            && self.source_id.is_none_or(|source| event.source_id == Some(source))
            && self.schema_major.is_none_or(|major| major == event.schema_major)
    }
}

/// What judging a subscription costs beside its filter, in bytes.
const CANDIDATE_COST: usize = 16;

/// Which subscriptions want one event, as far as that is decided.
#[derive(Debug, Default)]
pub struct Matching {
    /// The index's version that the places are of; absent before the candidates were gathered.
    version: Option<u64>,
    /// Those that want it, then those judged to no avail or not yet judged, each with its place.
    candidates: Vec<(SubscriptionId, u32)>,
    /// How many want it.
    kept: usize,
    /// The next to be judged, and the rule of its filter to go on from.
    next: usize,
    rule: usize,
    /// The last that was judged.
    last: Option<SubscriptionId>,
}

impl Matching {
    /// The next one is judged.
    fn judged(&mut self, wanted: bool) {
        let candidate = self.candidates[self.next];
        if wanted {
            self.candidates[self.kept] = candidate;
            self.kept += 1;
        }
        self.last = Some(candidate.0);
        self.next += 1;
        self.rule = 0;
    }
}

impl Matcher {
    /// An empty index; `seed` keys the hashing, since tenants choose the keys.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let hasher = || RandomState::with_seeds(seed, seed.rotate_left(17), seed.rotate_left(31), seed.rotate_left(47));
        Self {
            places: BTreeMap::new(),
            version: 0,
            entries: Vec::new(),
            free: Vec::new(),
            exact: HashMap::with_hasher(hasher()),
            resources: HashMap::with_hasher(hasher()),
            any: Vec::new(),
        }
    }

    /// How many live subscriptions it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Takes a subscription in place of an earlier one of the same id; one that is not live is only taken out.
    /// `handle` is what [`Matcher::matches`] will say of it.
    pub fn put(&mut self, subscription: &Subscription, filter: Filter, handle: u32) {
        self.remove(subscription.id);
        if subscription.is_live() {
            self.version += 1;
            let place = self.occupy(Entry::new(subscription, filter, handle));
            self.places.insert(subscription.id, place);
            self.file(place);
        }
    }

    /// Takes a subscription out; nothing happens when it is not there.
    pub fn remove(&mut self, id: SubscriptionId) {
        let Some(place) = self.places.remove(&id) else { return };
        self.version += 1;
        let entry = self.entries[index(place)].take().expect("a place in `places` is occupied");
        if entry.patterns.is_empty() {
            self.any.retain(|other| *other != place);
        }
        for pattern in &entry.patterns {
            match pattern {
                EventPattern::Any => self.any.retain(|other| *other != place),
                EventPattern::Resource(resource) => unfile(&mut self.resources, resource, place),
                EventPattern::Exact(key) => unfile(&mut self.exact, key, place),
            }
        }
        self.free.push(place);
    }

    /// Adds the handles of all live subscriptions that want `event` to `found`, in order of subscription id.
    /// `view` must be of this event.
    pub fn matches(&self, event: &Event, view: &mut PayloadView, found: &mut Vec<u32>) {
        let mut matching = Matching::default();
        let decided = self.go_on(event, view, &mut matching, &mut Work::unlimited());
        assert!(decided, "unlimited work decides everything");
        self.found(&matching, found);
    }

    /// Goes on deciding who wants `event`, as far as `work` reaches; says whether all is decided. Subscriptions that
    /// change on the way are judged as they are when their turn comes. `view` must be of this event.
    pub fn go_on(&self, event: &Event, view: &mut PayloadView, matching: &mut Matching, work: &mut Work) -> bool {
        if matching.version != Some(self.version) {
            self.gather_anew(event, matching);
        }
        while let Some((_, place)) = matching.candidates.get(matching.next).copied() {
            if work.is_spent() {
                return false;
            }
            work.charge(CANDIDATE_COST);
            let Some(wanted) = self.entry(place).wants(event, view, &mut matching.rule, work) else { return false };
            matching.judged(wanted);
        }
        true
    }

    /// The candidates not judged yet, as the index has them now.
    fn gather_anew(&self, event: &Event, matching: &mut Matching) {
        let mut places = Vec::new();
        self.gather(&event.key, &mut places);
        let candidates = places.into_iter().map(|place| (self.entry(place).id, place));
        let mut fresh: Vec<_> = candidates.filter(|(id, _)| matching.last.is_none_or(|last| *id > last)).collect();
        fresh.sort_unstable();
        fresh.dedup();
        matching.candidates.truncate(matching.kept);
        matching.candidates.retain_mut(|(id, place)| {
            let filed = self.places.get(id);
            *place = filed.copied().unwrap_or(*place);
            filed.is_some()
        });
        matching.kept = matching.candidates.len();
        matching.candidates.append(&mut fresh);
        (matching.next, matching.rule) = (matching.kept, 0);
        matching.version = Some(self.version);
    }

    /// Adds the handles of those that want the event and are still live to `found`, in order of subscription id.
    pub fn found(&self, matching: &Matching, found: &mut Vec<u32>) {
        let wanting = matching.candidates.iter().take(matching.kept);
        if matching.version == Some(self.version) {
            found.extend(wanting.map(|(_, place)| self.entry(*place).handle));
        } else {
            let places = wanting.filter_map(|(id, _)| self.places.get(id));
            found.extend(places.map(|place| self.entry(*place).handle));
        }
    }

    /// Adds the places of all subscriptions with a pattern for `key`, once per pattern.
    fn gather(&self, key: &str, places: &mut Vec<u32>) {
        places.extend_from_slice(&self.any);
        if let Some(list) = self.exact.get(key) {
            places.extend_from_slice(list);
        }
        if self.resources.is_empty() {
            return;
        }
        for (dot, _) in key.match_indices('.').filter(|(dot, _)| dot + 1 < key.len()) {
            if let Some(list) = self.resources.get(&key[..dot]) {
                places.extend_from_slice(list);
            }
        }
    }

    fn entry(&self, place: u32) -> &Entry {
        self.entries[index(place)].as_ref().expect("a filed place is occupied")
    }

    fn occupy(&mut self, entry: Entry) -> u32 {
        if let Some(place) = self.free.pop() {
            self.entries[index(place)] = Some(entry);
            return place;
        }
        self.entries.push(Some(entry));
        u32::try_from(self.entries.len() - 1).expect("a tenant's subscriptions are far fewer than 2^32")
    }

    fn file(&mut self, place: u32) {
        let entry = self.entries[index(place)].as_ref().expect("just occupied");
        if entry.patterns.is_empty() {
            self.any.push(place);
        }
        for pattern in &entry.patterns {
            match pattern {
                EventPattern::Any => self.any.push(place),
                EventPattern::Resource(resource) => file_under(&mut self.resources, resource, place),
                EventPattern::Exact(key) => file_under(&mut self.exact, key, place),
            }
        }
    }
}

fn file_under(map: &mut HashMap<Box<str>, Vec<u32>, RandomState>, key: &str, place: u32) {
    if let Some(list) = map.get_mut(key) {
        list.push(place);
    } else {
        map.insert(key.into(), vec![place]);
    }
}

fn unfile(map: &mut HashMap<Box<str>, Vec<u32>, RandomState>, key: &str, place: u32) {
    let Some(list) = map.get_mut(key) else { return };
    list.retain(|other| *other != place);
    if list.is_empty() {
        map.remove(key);
    }
}

fn index(place: u32) -> usize {
    usize::try_from(place).expect("a usize has at least 32 bits on the platforms served")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use crate::types::event::Attributes;
    use crate::types::subscription::{FilterOp, FilterRule, VerificationState};
    use crate::types::{DestinationId, LaneName, Sequence, TenantId, Time};
    use proptest::prelude::*;
    use uuid::Uuid;

    fn tenant() -> TenantId {
        TenantId::new("acme").expect("a tenant id")
    }

    fn event(key: &str) -> Event {
        Event {
            tenant: tenant(),
            id: Uuid::from_u128(1),
            sequence: Sequence(1),
            received_at: Time::ZERO,
            key: key.into(),
            schema_major: 1,
            attributes: Attributes::pack([("source", "loans")]),
            traceparent: None,
            tracestate: None,
            content_encoding: None,
            source_id: None,
            request: None,
            lane: LaneName("http/0".into()),
            payload: bytes::Bytes::from_static(br#"{"n":7}"#),
        }
    }

    fn subscription(number: u128, patterns: &[&str]) -> Subscription {
        let pattern = |text: &&str| EventPattern::try_from((*text).to_owned()).expect("a pattern");
        Subscription {
            id: SubscriptionId(Uuid::from_u128(number)),
            tenant: tenant(),
            name: None,
            description: None,
            origin: None,
            source_id: None,
            event_types: patterns.iter().map(pattern).collect(),
            schema_major: None,
            filter_rules: Vec::new(),
            destination_id: DestinationId(Uuid::nil()),
            enabled: true,
            disabled_reason: None,
            disabled_at: None,
            verification_state: VerificationState::Active,
            retry: None,
            ordering: None,
            ordering_key: None,
            created_at: Time::ZERO,
            updated_at: Time::ZERO,
            version: 1,
        }
    }

    fn everything() -> Filter {
        Filter::compile(&[]).expect("no rules, no faults")
    }

    fn found(matcher: &Matcher, event: &Event) -> Vec<u32> {
        let mut found = Vec::new();
        matcher.matches(event, &mut PayloadView::new(), &mut found);
        found
    }

    #[test]
    fn exact_resource_and_any_are_found_in_order_of_subscription() {
        let mut matcher = Matcher::new(3);
        matcher.put(&subscription(4, &["loan.approved"]), everything(), 40);
        matcher.put(&subscription(3, &["loan.*"]), everything(), 30);
        matcher.put(&subscription(2, &["*"]), everything(), 20);
        matcher.put(&subscription(1, &[]), everything(), 10);
        matcher.put(&subscription(5, &["loan.rejected", "card.*"]), everything(), 50);
        assert_eq!(found(&matcher, &event("loan.approved")), [10, 20, 30, 40]);
        assert_eq!(found(&matcher, &event("card.lost")), [10, 20, 50]);
        assert_eq!(found(&matcher, &event("loan.")), [10, 20], "a resource needs an event behind it");
        assert_eq!(found(&matcher, &event("loans.approved")), [10, 20]);
    }

    #[test]
    fn several_matching_patterns_are_one_match() {
        let mut matcher = Matcher::new(3);
        matcher.put(&subscription(1, &["a.b.c", "a.*", "a.b.*", "*", "*"]), everything(), 7);
        assert_eq!(found(&matcher, &event("a.b.c")), [7]);
        matcher.remove(SubscriptionId(Uuid::from_u128(1)));
        assert_eq!(found(&matcher, &event("a.b.c")), Vec::<u32>::new());
        assert!(matcher.is_empty());
    }

    #[test]
    fn what_was_found_before_is_kept() {
        let mut matcher = Matcher::new(3);
        matcher.put(&subscription(1, &[]), everything(), 7);
        let mut found = vec![99];
        matcher.matches(&event("a.b"), &mut PayloadView::new(), &mut found);
        assert_eq!(found, [99, 7]);
    }

    #[test]
    fn each_pin_excludes() {
        let source = SourceId(Uuid::from_u128(8));
        let pinned = [
            Subscription { origin: Some("cards".to_owned()), ..subscription(1, &[]) },
            Subscription { schema_major: Some(2), ..subscription(1, &[]) },
            Subscription { source_id: Some(source), ..subscription(1, &[]) },
        ];
        let wanted = Event {
            attributes: Attributes::pack([("source", "cards")]),
            schema_major: 2,
            source_id: Some(source),
            ..event("a.b")
        };
        for subscription in pinned {
            let mut matcher = Matcher::new(3);
            matcher.put(&subscription, everything(), 7);
            assert_eq!(found(&matcher, &event("a.b")), Vec::<u32>::new(), "{subscription:?}");
            assert_eq!(found(&matcher, &wanted), [7], "{subscription:?}");
        }
        let mut matcher = Matcher::new(3);
        matcher.put(
            &Subscription { source_id: Some(SourceId(Uuid::from_u128(9))), ..subscription(1, &[]) },
            everything(),
            7,
        );
        assert_eq!(found(&matcher, &wanted), Vec::<u32>::new(), "another source");
    }

    #[test]
    fn the_filter_decides_last() {
        let rule = |value: u32| FilterRule { field: "payload.n".into(), op: FilterOp::Eq, value: value.into() };
        let mut matcher = Matcher::new(3);
        matcher.put(&subscription(1, &[]), Filter::compile(&[rule(7)]).expect("valid"), 1);
        matcher.put(&subscription(2, &[]), Filter::compile(&[rule(8)]).expect("valid"), 2);
        assert_eq!(found(&matcher, &event("a.b")), [1]);
    }

    #[test]
    fn only_enabled_and_active_ones_are_found() {
        let mut matcher = Matcher::new(3);
        let live = subscription(1, &["a.b"]);
        matcher.put(&live, everything(), 1);
        assert_eq!(found(&matcher, &event("a.b")), [1]);
        matcher.put(&Subscription { enabled: false, ..live.clone() }, everything(), 2);
        assert_eq!(found(&matcher, &event("a.b")), Vec::<u32>::new());
        for state in [VerificationState::Pending, VerificationState::Failed] {
            matcher.put(&Subscription { verification_state: state, ..live.clone() }, everything(), 3);
            assert!(matcher.is_empty());
        }
        matcher.put(&live, everything(), 4);
        assert_eq!(found(&matcher, &event("a.b")), [4]);
    }

    #[test]
    fn a_replacement_leaves_nothing_of_the_old() {
        let mut matcher = Matcher::new(3);
        matcher.put(&subscription(1, &["a.b", "c.*"]), everything(), 1);
        matcher.put(&subscription(1, &["d.e"]), everything(), 2);
        assert_eq!(matcher.len(), 1);
        for (key, expected) in [("a.b", vec![]), ("c.x", vec![]), ("d.e", vec![2])] {
            assert_eq!(found(&matcher, &event(key)), expected, "{key}");
        }
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn agrees_with_asking_every_subscription(
            steps in prop::collection::vec((0u128..12, prop::collection::vec(0usize..8, 0..4), any::<bool>()), 1..60),
        ) {
            let patterns = ["*", "a.*", "a.b.*", "a.b", "a.c", "b.a", "b.*", "a.b.c"];
            let mut matcher = Matcher::new(5);
            let mut model: BTreeMap<SubscriptionId, (Subscription, u32)> = BTreeMap::new();
            for (handle, (number, chosen, keep)) in (0u32..).zip(steps) {
                let chosen: Vec<&str> = chosen.into_iter().map(|index| patterns[index]).collect();
                let subscription = subscription(number, &chosen);
                if keep {
                    matcher.put(&subscription, everything(), handle);
                    model.insert(subscription.id, (subscription, handle));
                } else {
                    matcher.remove(subscription.id);
                    model.remove(&subscription.id);
                }
            }
            prop_assert_eq!(matcher.len(), model.len());
            for key in ["a.b", "a.c", "a.b.c", "b.a", "b.z", "c", "a."] {
                let expected: Vec<u32> = model
                    .values()
                    .filter(|(s, _)| s.event_types.is_empty() || s.event_types.iter().any(|p| p.matches(key)))
                    .map(|(_, handle)| *handle)
                    .collect();
                prop_assert_eq!(found(&matcher, &event(key)), expected);
            }
        }
    }
}
