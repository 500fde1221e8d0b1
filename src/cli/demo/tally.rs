//! What the API says of one receiver's deliveries, counted.

use serde::Serialize;
use serde_json::Value;

use super::client::Client;
use super::stage::{Actor, text};

/// Pages read of one list, at most.
const PAGES_MAX: usize = 100;

/// The deliveries of one destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// All.
    pub matched: u64,
    /// Those that ended well.
    pub delivered: u64,
    /// Those that have not ended.
    pub waiting: u64,
    /// Those that ended badly.
    pub dead_lettered: u64,
    /// Of these, those whose reason is `exhausted`.
    pub exhausted: u64,
    /// Attempts of all.
    pub attempts: u64,
    /// The circuit's state.
    pub circuit: String,
    /// Whether it was ever another.
    pub circuit_moved: bool,
}

impl Tally {
    /// Counts what the API lists for that receiver.
    ///
    /// # Errors
    /// One line when the API does not answer as it should.
    pub fn read(client: &mut Client, actor: &Actor) -> Result<Self, String> {
        let mut tally = Self::default();
        let list = format!("/v1/deliveries?limit=100&destination_id={}", actor.destination);
        for delivery in read_all(client, &list)? {
            tally.count(&delivery);
        }
        let circuit = client.read(&format!("/v1/destinations/{}/circuit", actor.destination))?;
        tally.circuit = text(&circuit, "state")?;
        tally.circuit_moved = circuit["last_transition_at"].is_string();
        Ok(tally)
    }

    fn count(&mut self, delivery: &Value) {
        self.matched += 1;
        self.attempts += delivery["attempt_count"].as_u64().unwrap_or(0);
        match delivery["status"].as_str() {
            Some("delivered") => self.delivered += 1,
            Some("dead_lettered") => {
                self.dead_lettered += 1;
                self.exhausted += u64::from(delivery["reason"] == "exhausted");
            }
            Some(_) | None => self.waiting += 1,
        }
    }
}

/// All entries of a list, page by page; `list` is its path with a query.
///
/// # Errors
/// One line when the API does not answer as it should.
pub fn read_all(client: &mut Client, list: &str) -> Result<Vec<Value>, String> {
    let mut items = Vec::new();
    let mut page = client.read(list)?;
    for _ in 1..PAGES_MAX {
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        page = client.read(&format!("{list}&cursor={cursor}"))?;
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deliveries_are_counted_by_their_end() {
        let mut tally = Tally::default();
        for delivery in [
            json!({"status": "delivered", "attempt_count": 2}),
            json!({"status": "dead_lettered", "reason": "exhausted", "attempt_count": 2}),
            json!({"status": "dead_lettered", "reason": "gone", "attempt_count": 1}),
            json!({"status": "pending", "attempt_count": 0}),
            json!({"status": "delivering", "attempt_count": 1}),
        ] {
            tally.count(&delivery);
        }
        let expected = Tally {
            matched: 5,
            delivered: 1,
            waiting: 2,
            dead_lettered: 2,
            exhausted: 1,
            attempts: 6,
            circuit: String::new(),
            circuit_moved: false,
        };
        assert_eq!(tally, expected);
    }
}
