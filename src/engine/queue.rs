//! The queue of one subscription: its jobs in memory that wait for an attempt, in groups that keep order.
//!
//! Under `fifo` and `strict` a group lets a job out only when none of it is out (it may find several out: a former owner's,
//! or those of a `parallel` time); under `parallel` none counts as out. With the ordering key `subject` each subject is a group of its own, else there is one. First attempts
//! and retries wait apart, since first attempts keep a reserved share.

use std::collections::{BTreeMap, VecDeque};

use super::arena::Handle;
use super::job::{Class, Job};

type JobHandle = Handle<Job>;

#[derive(Debug, Default)]
struct Group {
    waiting: [VecDeque<JobHandle>; 2],
    /// It stands in the ready ring of this class.
    listed: [bool; 2],
    out: u32,
}

impl Group {
    const fn is_busy(&self) -> bool {
        self.out > 0
    }
}

/// Whether a group lets only one job out at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// `fifo` and `strict`.
    OneAtATime,
    /// `parallel`.
    Parallel,
}

/// One subscription's queue.
#[derive(Debug)]
pub(super) struct Queue {
    mode: Mode,
    groups: BTreeMap<u64, Group>,
    ready: [VecDeque<u64>; 2],
    waiting: [usize; 2],
}

impl Queue {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, groups: BTreeMap::new(), ready: Default::default(), waiting: [0, 0] }
    }

    /// Whether a job that is let out holds its group.
    pub(super) fn is_one_at_a_time(&self) -> bool {
        self.mode == Mode::OneAtATime
    }

    /// How many jobs of a class wait.
    pub(super) const fn waiting(&self, class: Class) -> usize {
        self.waiting[class.index()]
    }

    /// Whether a job of this class could go out.
    pub(super) fn has_ready(&self, class: Class) -> bool {
        !self.ready[class.index()].is_empty()
    }

    /// Whether a waiting job has others of its group before it: one that is out, or earlier ones.
    pub(super) fn is_behind(&self, key: u64, class: Class, job: JobHandle) -> bool {
        let Some(group) = self.groups.get(&key) else { return false };
        let first = group.waiting[class.index()].front();
        self.mode == Mode::OneAtATime && (group.is_busy() || first.is_some_and(|first| *first != job))
    }

    /// Adds a job behind the others of its class.
    pub(super) fn push_back(&mut self, group: u64, class: Class, job: JobHandle) {
        self.groups.entry(group).or_default().waiting[class.index()].push_back(job);
        self.waiting[class.index()] += 1;
        self.list(group);
    }

    /// Puts a job back before the others of its class.
    pub(super) fn push_front(&mut self, group: u64, class: Class, job: JobHandle) {
        self.groups.entry(group).or_default().waiting[class.index()].push_front(job);
        self.waiting[class.index()] += 1;
        self.list(group);
    }

    /// Lets the next job of this class out; its group is busy from then on, unless it is parallel.
    pub(super) fn pop(&mut self, class: Class) -> Option<JobHandle> {
        let key = self.ready[class.index()].pop_front()?;
        let group = self.groups.get_mut(&key).expect("a listed group exists");
        group.listed[class.index()] = false;
        let job = group.waiting[class.index()].pop_front().expect("a listed group has a waiting job");
        self.waiting[class.index()] -= 1;
        if self.mode == Mode::OneAtATime {
            group.out += 1;
            self.unlist(key);
        } else {
            self.list(key);
        }
        Some(job)
    }

    /// A job that was out has come back or ended: if it was the last, its group may let the next one out.
    pub(super) fn release(&mut self, key: u64) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.out = group.out.saturating_sub(1);
            self.list(key);
            self.drop_if_empty(key);
        }
    }

    /// Counts one more job of a group as out, without taking it from here.
    pub(super) fn occupy(&mut self, key: u64) {
        if self.mode == Mode::OneAtATime {
            self.groups.entry(key).or_default().out += 1;
            self.unlist(key);
        }
    }

    /// Takes one waiting job out of its place. `false` when it does not wait here.
    pub(super) fn remove(&mut self, key: u64, class: Class, job: JobHandle) -> bool {
        let Some(group) = self.groups.get_mut(&key) else { return false };
        let waiting = &mut group.waiting[class.index()];
        let Some(position) = waiting.iter().position(|other| *other == job) else { return false };
        waiting.remove(position);
        self.waiting[class.index()] -= 1;
        self.relist(key);
        true
    }

    /// Takes all waiting jobs out, first attempts before retries, each in order of arrival within its group.
    pub(super) fn drain(&mut self) -> Vec<JobHandle> {
        let mut jobs = Vec::new();
        for class in Class::BOTH {
            for group in self.groups.values_mut() {
                jobs.extend(group.waiting[class.index()].drain(..));
                group.listed = [false, false];
            }
        }
        self.groups.retain(|_, group| group.is_busy());
        self.ready = Default::default();
        self.waiting = [0, 0];
        jobs
    }

    fn list(&mut self, key: u64) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        if group.is_busy() {
            return;
        }
        for class in Class::BOTH {
            let index = class.index();
            if !group.listed[index] && !group.waiting[index].is_empty() {
                group.listed[index] = true;
                self.ready[index].push_back(key);
            }
        }
    }

    /// Takes a group out of the ready rings; a group under `fifo` stands in at most two.
    fn unlist(&mut self, key: u64) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        for class in Class::BOTH {
            if std::mem::take(&mut group.listed[class.index()]) {
                self.ready[class.index()].retain(|other| *other != key);
            }
        }
    }

    fn relist(&mut self, key: u64) {
        self.unlist(key);
        self.list(key);
        self.drop_if_empty(key);
    }

    fn drop_if_empty(&mut self, key: u64) {
        let empty =
            self.groups.get(&key).is_some_and(|group| !group.is_busy() && group.waiting.iter().all(VecDeque::is_empty));
        if empty {
            self.groups.remove(&key);
        }
    }
}

/// The group of a subject: its FNV-1a hash. Two subjects that meet in one group only wait for each other.
pub(super) fn subject_group(subject: &str) -> u64 {
    subject.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64) -> JobHandle {
        Handle::from_bits(number)
    }

    #[test]
    fn a_one_at_a_time_group_waits_until_it_is_released() {
        let mut queue = Queue::new(Mode::OneAtATime);
        queue.push_back(0, Class::First, job(1));
        queue.push_back(0, Class::First, job(2));
        queue.push_back(0, Class::Retry, job(3));
        assert_eq!(queue.pop(Class::First), Some(job(1)));
        assert_eq!(queue.pop(Class::First), None);
        assert_eq!(queue.pop(Class::Retry), None);
        queue.release(0);
        assert_eq!(queue.pop(Class::Retry), Some(job(3)));
        assert_eq!(queue.pop(Class::First), None);
        queue.release(0);
        assert_eq!(queue.pop(Class::First), Some(job(2)));
        queue.release(0);
        assert!(queue.groups.is_empty());
    }

    #[test]
    fn a_group_with_several_out_waits_for_all_of_them() {
        let mut queue = Queue::new(Mode::OneAtATime);
        queue.push_back(0, Class::First, job(1));
        queue.occupy(0);
        queue.occupy(0);
        queue.release(0);
        assert_eq!(queue.pop(Class::First), None);
        queue.release(0);
        assert_eq!(queue.pop(Class::First), Some(job(1)));
    }

    #[test]
    fn subjects_go_side_by_side_and_parallel_never_waits() {
        let mut queue = Queue::new(Mode::OneAtATime);
        queue.push_back(7, Class::First, job(1));
        queue.push_back(7, Class::First, job(2));
        queue.push_back(8, Class::First, job(3));
        assert_eq!(queue.pop(Class::First), Some(job(1)));
        assert_eq!(queue.pop(Class::First), Some(job(3)));
        assert_eq!(queue.pop(Class::First), None);
        let mut queue = Queue::new(Mode::Parallel);
        queue.push_back(0, Class::First, job(1));
        queue.push_back(0, Class::First, job(2));
        queue.push_front(0, Class::First, job(3));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(Class::First)).collect();
        assert_eq!(order, [job(3), job(1), job(2)]);
    }

    #[test]
    fn a_removed_or_drained_job_leaves_no_trace() {
        let mut queue = Queue::new(Mode::OneAtATime);
        queue.push_back(0, Class::First, job(1));
        assert!(queue.remove(0, Class::First, job(1)));
        assert!(!queue.remove(0, Class::First, job(1)));
        assert!(!queue.has_ready(Class::First));
        queue.push_back(0, Class::First, job(2));
        queue.push_back(0, Class::Retry, job(3));
        assert_eq!(queue.drain(), [job(2), job(3)]);
        assert_eq!(queue.waiting(Class::First) + queue.waiting(Class::Retry), 0);
        assert_eq!(queue.pop(Class::First), None);
    }
}
