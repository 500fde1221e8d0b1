//! What the demo expects, held against the facts.

use std::collections::BTreeSet;

use serde::Serialize;

use super::facts::{Facts, Row};
use super::plan::Order;
use super::receiver::Temper;

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What should be, with the figures as they are.
    pub claim: String,
    /// Whether it is.
    pub holds: bool,
}

/// All expectations, those of the receivers first.
#[must_use]
pub fn checks(facts: &Facts) -> Vec<Check> {
    let receivers = facts.receivers.iter().map(of_receiver);
    let odd = [
        duplicate(facts),
        malformed(facts),
        kept_back("a filter keeps back", facts.filtered_deliveries),
        kept_back("nobody wants", facts.unwanted_deliveries),
        tenancy(facts),
        signatures(facts),
    ];
    receivers.chain(odd).collect()
}

fn of_receiver(row: &Row) -> Check {
    match row.role.temper {
        Temper::Healthy => healthy(row),
        Temper::Challenged => challenged(row),
        Temper::Failing => failing(row),
        Temper::Recovering { failures } => recovering(row, failures as u64),
        Temper::Hanging => hanging(row),
    }
}

fn healthy(row: &Row) -> Check {
    Check { claim: format!("{} {}", row.receiver, got_all(row)), holds: has_all(row) && needed(row, 0) }
}

fn challenged(row: &Row) -> Check {
    Check {
        claim: format!("{} gave its challenge back first; it {}", row.receiver, got_all(row)),
        holds: has_all(row) && needed(row, 0) && row.challenges > 0,
    }
}

fn recovering(row: &Row, failures: u64) -> Check {
    let circuit = if row.tally.circuit_moved { "opened" } else { "did not open" };
    Check {
        claim: format!(
            "{} fails {failures} times: circuit {circuit}, now {}; {}",
            row.receiver,
            row.tally.circuit,
            got_all(row)
        ),
        holds: has_all(row) && needed(row, failures) && row.tally.circuit_moved && row.tally.circuit == "closed",
    }
}

fn failing(row: &Row) -> Check {
    let (tally, due) = (&row.tally, row.due.len() as u64);
    Check {
        claim: format!(
            "{} always fails: {} of {due} deliveries are dead letters (`exhausted`), after {} attempts in all",
            row.receiver, tally.exhausted, tally.attempts
        ),
        holds: (tally.matched, tally.exhausted, tally.dead_lettered) == (due, due, due)
            && needed(row, due * u64::from(row.role.retries())),
    }
}

fn hanging(row: &Row) -> Check {
    let (tally, due) = (&row.tally, row.due.len() as u64);
    Check {
        claim: format!(
            "{} never answers: its circuit is {} after {} attempts, and {} of {due} deliveries wait",
            row.receiver, tally.circuit, tally.attempts, tally.waiting
        ),
        holds: tally.circuit == "open"
            && (tally.matched, tally.waiting) == (due, due)
            && tally.attempts == row.requests
            && tally.attempts >= u64::from(row.role.threshold),
    }
}

/// What it got, in words that say what is wrong with it.
fn got_all(row: &Row) -> String {
    let due: BTreeSet<u64> = row.due.iter().copied().collect();
    let taken: BTreeSet<u64> = row.taken.iter().copied().collect();
    let order = match row.role.order {
        Order::Parallel => "several at a time",
        Order::Fifo | Order::Strict if row.taken.is_sorted() => "in order",
        Order::Fifo | Order::Strict => "not in order",
    };
    let attempts = row.tally.attempts;
    let mut text = format!("got {} of {} events in {attempts} attempts", taken.intersection(&due).count(), due.len());
    match row.taken.len() - taken.len() {
        0 => text.push_str(", each once"),
        again => text.push_str(&format!(", {again} of them again")),
    }
    if !taken.is_subset(&due) {
        text.push_str(&format!(", {} that it did not ask for", taken.difference(&due).count()));
    }
    if row.requests != attempts {
        text.push_str(&format!(", {} requests", row.requests));
    }
    format!("{text}, {order}")
}

/// Whether receiver and API agree on one attempt for each event and `more`.
fn needed(row: &Row, more: u64) -> bool {
    let attempts = row.due.len() as u64 + more;
    row.tally.attempts == attempts && row.requests == attempts
}

/// Whether the receiver took exactly what it was due, in the order it asked for, and the API agrees.
fn has_all(row: &Row) -> bool {
    let mut taken = row.taken.clone();
    match row.role.order {
        Order::Fifo | Order::Strict => {}
        Order::Parallel => taken.sort_unstable(),
    }
    let due = row.due.len() as u64;
    taken == row.due && row.tally.matched == due && row.tally.delivered == due
}

fn duplicate(facts: &Facts) -> Check {
    let duplicate = &facts.duplicate;
    let mark = if duplicate.marked { "`\"duplicate\": true`" } else { "no mark" };
    let times = match duplicate.taken.as_slice() {
        [1] => "once".to_owned(),
        taken => format!("{} times", taken.iter().sum::<u64>()),
    };
    Check {
        claim: format!("the duplicate was answered {} with {mark} and delivered {times}", duplicate.status),
        holds: duplicate.status == 200 && duplicate.marked && duplicate.taken == [1],
    }
}

fn malformed(facts: &Facts) -> Check {
    let refused = &facts.malformed;
    Check {
        claim: format!("the malformed event was refused with {} {}: {}", refused.status, refused.code, refused.detail),
        holds: refused.status == 400 && refused.code == "bad_specversion",
    }
}

fn kept_back(what: &str, deliveries: Option<u64>) -> Check {
    let count = deliveries.map_or_else(|| "an unknown number of".to_owned(), |count| count.to_string());
    Check { claim: format!("the event that {what} is stored and has {count} deliveries"), holds: deliveries == Some(0) }
}

fn tenancy(facts: &Facts) -> Check {
    let (own, foreign) = (facts.own_status, facts.foreign_status);
    let claim = format!("an event of acme is shown to acme ({own}) and not to globex ({foreign})");
    Check { claim, holds: (own, foreign) == (200, 404) }
}

fn signatures(facts: &Facts) -> Check {
    Check {
        claim: format!(
            "{} of {} requests at the receivers carry valid signatures",
            facts.requests_verified, facts.requests
        ),
        holds: facts.requests > 0
            && facts.requests_verified == facts.requests
            && facts.signature.as_ref().is_some_and(super::proof::Proof::holds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::facts::tests::facts;

    /// The claims that do not hold once `change` has spoiled the facts.
    fn broken(change: impl FnOnce(&mut Facts)) -> Vec<String> {
        let mut facts = facts();
        change(&mut facts);
        checks(&facts).into_iter().filter(|check| !check.holds).map(|check| check.claim).collect()
    }

    fn row<'a>(facts: &'a mut Facts, name: &str) -> &'a mut Row {
        facts.receivers.iter_mut().find(|row| row.receiver == name).expect("a receiver")
    }

    /// Exactly one expectation breaks, and it speaks of `subject`.
    fn breaks(subject: &str, change: impl FnOnce(&mut Facts)) {
        let claims = broken(change);
        assert!(claims.len() == 1 && claims[0].contains(subject), "{subject}: {claims:?}");
    }

    #[test]
    fn good_facts_break_nothing() {
        assert_eq!(broken(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn a_missed_a_repeated_and_a_late_event_are_found() {
        breaks("ledger", |facts| row(facts, "ledger").taken = vec![1]);
        breaks("ledger", |facts| row(facts, "ledger").taken = vec![1, 1, 2]);
        breaks("ledger", |facts| row(facts, "ledger").taken = vec![2, 1]);
        breaks("payroll", |facts| row(facts, "payroll").taken = vec![2, 1]);
        breaks("warehouse", |facts| row(facts, "warehouse").taken = vec![2, 3]);
        assert!(broken(|facts| row(facts, "warehouse").taken = vec![2, 1]).is_empty(), "it asked for no order");
    }

    #[test]
    fn a_claim_says_what_is_wrong() {
        let claims = |taken: &[u64]| {
            let claims = broken(|facts| row(facts, "ledger").taken = taken.to_vec());
            claims.into_iter().next().unwrap_or_default()
        };
        assert_eq!(claims(&[1]), "ledger got 1 of 2 events in 2 attempts, each once, in order");
        assert_eq!(claims(&[2, 1]), "ledger got 2 of 2 events in 2 attempts, each once, not in order");
        assert_eq!(claims(&[1, 1, 2]), "ledger got 2 of 2 events in 2 attempts, 1 of them again, in order");
        let stranger = claims(&[1, 2, 3]);
        assert_eq!(stranger, "ledger got 2 of 2 events in 2 attempts, each once, 1 that it did not ask for, in order");
        let claims = broken(|facts| row(facts, "ledger").requests = 3);
        assert_eq!(claims, ["ledger got 2 of 2 events in 2 attempts, each once, 3 requests, in order"]);
    }

    #[test]
    fn receivers_and_api_must_agree() {
        breaks("ledger", |facts| row(facts, "ledger").requests = 3);
        breaks("ledger", |facts| row(facts, "ledger").tally.delivered = 1);
        breaks("audit", |facts| row(facts, "audit").challenges = 0);
        breaks("crm", |facts| row(facts, "crm").tally.exhausted = 1);
        breaks("crm", |facts| row(facts, "crm").requests = 3);
        breaks("payroll", |facts| row(facts, "payroll").tally.attempts = 2);
        breaks("payroll", |facts| row(facts, "payroll").tally.circuit_moved = false);
        breaks("old-erp", |facts| row(facts, "old-erp").tally.circuit = "closed".to_owned());
        breaks("old-erp", |facts| row(facts, "old-erp").tally.waiting = 1);
    }

    #[test]
    fn the_odd_ones_are_judged() {
        breaks("duplicate", |facts| facts.duplicate.taken = vec![2]);
        breaks("duplicate", |facts| facts.duplicate.marked = false);
        breaks("malformed", |facts| facts.malformed.status = 200);
        breaks("filter", |facts| facts.filtered_deliveries = Some(1));
        breaks("nobody wants", |facts| facts.unwanted_deliveries = None);
        breaks("globex", |facts| facts.foreign_status = 200);
        breaks("globex", |facts| facts.own_status = 404);
        breaks("signatures", |facts| facts.requests_verified -= 1);
        breaks("signatures", |facts| facts.signature = None);
    }
}
