//! How receivers answer, by group; it may change at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::plan::Group;

/// How one group is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// 200, at once.
    Prompt,
    /// 200, after a while.
    Slow(Duration),
    /// 500, at once.
    Failing,
    /// Nothing at all: the request is read, and that is it.
    Silent,
}

/// The tempers of all groups; each is prompt at first.
#[derive(Debug, Default)]
pub struct Tempers([AtomicU64; Group::ALL.len()]);

const PROMPT: u64 = 0;
const FAILING: u64 = u64::MAX;
const SILENT: u64 = u64::MAX - 1;

impl Tempers {
    /// Changes a group's.
    pub fn set(&self, group: Group, temper: Temper) {
        let code = match temper {
            Temper::Prompt => PROMPT,
            Temper::Slow(after) => u64::try_from(after.as_micros()).expect("a delay of this century"),
            Temper::Failing => FAILING,
            Temper::Silent => SILENT,
        };
        self.0[group.index()].store(code, Ordering::Relaxed);
    }

    /// A group's, now.
    #[must_use]
    pub fn of(&self, group: Group) -> Temper {
        match self.0[group.index()].load(Ordering::Relaxed) {
            PROMPT => Temper::Prompt,
            FAILING => Temper::Failing,
            SILENT => Temper::Silent,
            micros => Temper::Slow(Duration::from_micros(micros)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_keeps_its_own() {
        let tempers = Tempers::default();
        let slow = Temper::Slow(Duration::from_millis(1_500));
        for (group, temper) in [(Group::Slow, slow), (Group::Silent, Temper::Silent), (Group::Hot, Temper::Failing)] {
            tempers.set(group, temper);
            assert_eq!(tempers.of(group), temper);
        }
        assert_eq!(tempers.of(Group::Healthy), Temper::Prompt);
    }
}
