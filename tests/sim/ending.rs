//! When a run is over, and what must be true then.

use streaming_hub::types::{End, EndReason};

use crate::checks::{JobPlace, JobView, Rule};
use crate::clients::Request;
use crate::log::Written;
use crate::world::World;

impl World {
    /// Nothing is on its way, nothing waits, every job has ended and every lane is read to its end.
    pub fn is_quiet(&self) -> bool {
        let node = &self.nodes[0];
        let at_end = |partition: u16| {
            let lane = node.lane_of(partition);
            lane.is_some_and(|(_, lane)| lane.position >= self.partitions[usize::from(partition)].end())
        };
        node.is_idle()
            && self.checks.open.is_empty()
            && self.clients.are_content()
            && (0..self.scenario.partitions).all(at_end)
    }

    /// The last checks.
    pub fn check_end(&mut self) {
        self.check_stuck();
        self.check_lost();
        self.check_jobs();
    }

    fn check_stuck(&mut self) {
        let node = &self.nodes[0];
        let waiting = (node.commits.len(), node.reads, node.attempts.len());
        let next = node.next_wake();
        self.checks.expect(waiting == (0, 0, 0), Rule::Stuck, || format!("on their way at the end: {waiting:?}"));
        let open: Vec<(JobPlace, JobView)> = self
            .checks
            .open
            .iter()
            .filter_map(|place| Some((place.clone(), self.checks.jobs.get(place)?.clone())))
            .collect();
        self.checks.expect(open.is_empty(), Rule::Stuck, || {
            format!("{} jobs never end (next wake-up {next:?}), such as {:?}", open.len(), open.first())
        });
        let content = self.clients.are_content();
        self.checks.expect(content, Rule::Stuck, || "a client waits for ever".to_owned());
        for partition in 0..self.scenario.partitions {
            let end = self.partitions[usize::from(partition)].end();
            let position = self.nodes[0].lane_of(partition).map(|(_, lane)| lane.position);
            let reached = position.is_some_and(|position| position >= end);
            let text = || format!("partition {partition} ends at {end}, its lane stays at {position:?}");
            self.checks.expect(reached, Rule::Stuck, text);
        }
    }

    fn check_lost(&mut self) {
        for partition in 0..self.scenario.partitions {
            let end = self.partitions[usize::from(partition)].end();
            self.check_position(partition, 0, end);
        }
        let stored_whole =
            |request: &&Request| request.acknowledged && !request.events.iter().any(|plan| plan.unstorable);
        let acknowledged = self.clients.requests.values().filter(stored_whole);
        let promised: Vec<_> = acknowledged.flat_map(|request| request.events.clone()).collect();
        for plan in promised {
            let kept = self.checks.is_durable(&plan.tenant, plan.id);
            self.checks.expect(kept, Rule::Lost, || format!("acknowledged event {} is gone", plan.id));
        }
        let stored = self.store.events().count();
        let known = self.checks.events.len();
        self.checks.expect(stored == known, Rule::Lost, || format!("{stored} events are stored, {known} were"));
        let written = self.partitions.iter().flat_map(|partition| &partition.records);
        let mut unread = written.filter_map(|(_, written)| match written {
            Written::Event(plan) if !plan.unstorable => Some(plan),
            Written::Event(_) | Written::Nothing | Written::Malformed | Written::Command(_) => None,
        });
        let lost = unread.find(|plan| !self.checks.is_durable(&plan.tenant, plan.id)).cloned();
        self.checks.expect(lost.is_none(), Rule::Lost, || format!("{lost:?} is gone"));
    }

    fn check_jobs(&mut self) {
        let jobs: Vec<_> = self.store.jobs().collect();
        let known = self.checks.jobs.len();
        self.checks.expect(jobs.len() == known, Rule::Jobs, || format!("{} jobs are stored, {known} were", jobs.len()));
        for (tenant, record) in jobs {
            let place = (tenant, record.key);
            let end = self.checks.jobs.get(&place).and_then(|job| job.end);
            let same = record.end.map(|(end, _)| end) == end;
            self.checks.expect(same, Rule::End, || format!("{place:?} is stored as {:?}, ended {end:?}", record.end));
            let answered = record.open_claim.is_none();
            self.checks.expect(answered || end.is_some(), Rule::Claim, || format!("{place:?} keeps an open claim"));
        }
        self.check_poison();
    }

    /// Only the event that kills its process is poison, where no other shard dies with it.
    fn check_poison(&mut self) {
        let poisoned = |job: &JobView| job.end == Some(End::DeadLettered(EndReason::Poison));
        let victims = self.checks.jobs.iter().filter(|(_, job)| poisoned(job)).map(|(place, _)| place.clone());
        let innocent = victims.clone().find(|place| {
            let number = (place.1.slot, place.1.sequence);
            let plan = self.checks.sequences.get(&number).and_then(|event| self.checks.plans.get(event));
            !plan.is_some_and(|plan| plan.lethal)
        });
        let alone = self.scenario.shards == 1;
        self.checks
            .expect(innocent.is_none() || !alone, Rule::End, || format!("{innocent:?} is poisoned, yet harmless"));
    }
}
