//! What happened, counted at the receivers and read from the API: the one source of table, checks and JSON.

use serde::Serialize;

use super::plan::Role;
use super::proof::{Proof, verifies};
use super::publisher::Accepted;
use super::receiver::Notes;
use super::stage::{Actor, Stage, text};
use super::story::{Story, deliveries_of, status_for, wanted};
use super::tally::Tally;
use crate::types::Time;

/// Everything there is to tell.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// Where the hub listened.
    pub hub: String,
    /// From the first request to the last look.
    pub elapsed_ms: u64,
    /// Events that the hub acknowledged as new.
    pub accepted: u64,
    /// Every receiver.
    pub receivers: Vec<Row>,
    /// The event that was published twice.
    pub duplicate: Duplicate,
    /// The event that was refused.
    pub malformed: Refused,
    /// Deliveries of the event that a filter kept back; absent when the API does not say.
    pub filtered_deliveries: Option<u64>,
    /// Deliveries of the event that nobody asked for; absent when the API does not say.
    pub unwanted_deliveries: Option<u64>,
    /// What a tenant got that asked for its own event.
    pub own_status: u16,
    /// What a tenant got that asked for another's event.
    pub foreign_status: u16,
    /// Requests that reached receivers.
    pub requests: u64,
    /// Of these, those with two matching signatures and a fresh timestamp.
    pub requests_verified: u64,
    /// One of them, shown.
    pub signature: Option<Proof>,
}

/// One receiver.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its part.
    #[serde(skip)]
    pub role: &'static Role,
    /// Whose it is.
    pub tenant: &'static str,
    /// Its name.
    pub receiver: &'static str,
    /// Its temper in words.
    pub temper: String,
    /// What the API says.
    #[serde(flatten)]
    pub tally: Tally,
    /// Deliveries that reached it, answered or not.
    pub requests: u64,
    /// Challenges that it gave back.
    pub challenges: u64,
    /// The numbers of the events it was due, in order of publishing.
    #[serde(skip)]
    pub due: Vec<u64>,
    /// The numbers of the events it answered with 200, in order of coming.
    #[serde(skip)]
    pub taken: Vec<u64>,
}

/// The event that was published twice.
#[derive(Clone, Debug, Serialize)]
pub struct Duplicate {
    /// Its id.
    pub event_id: String,
    /// The status of the second answer.
    pub status: u16,
    /// Whether that answer says so.
    pub marked: bool,
    /// How often receivers that want it took it, each.
    pub taken: Vec<u64>,
}

/// The event that was refused.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// The reason.
    pub code: String,
    /// The reason in words.
    pub detail: String,
}

impl Facts {
    /// Gathers them.
    ///
    /// # Errors
    /// One line when the API does not answer as it should.
    pub fn gather(stage: &Stage, story: &Story, started_at: Time, now: Time) -> Result<Self, String> {
        let notes: Vec<Notes> = stage.actors.iter().map(|actor| actor.receiver.notes()).collect();
        let rows = stage.actors.iter().zip(&notes).zip(&story.tallies);
        let odd = &story.oddities;
        Ok(Self {
            hub: format!("http://{}", stage.address),
            elapsed_ms: now.since(started_at).as_millis(),
            accepted: story.accepted.iter().map(|accepted| accepted.len() as u64).sum(),
            receivers: rows.map(|((actor, notes), tally)| row(actor, notes, tally, &story.accepted)).collect(),
            duplicate: Duplicate {
                event_id: odd.repeated.event_id.clone(),
                status: odd.repeat.status,
                marked: odd.repeat.json["duplicate"] == true,
                taken: copies(stage, &notes, &odd.repeated),
            },
            malformed: Refused {
                status: odd.malformed.status,
                code: text(&odd.malformed.json, "code").unwrap_or_default(),
                detail: text(&odd.malformed.json, "detail").unwrap_or_default(),
            },
            filtered_deliveries: deliveries_of(stage, "acme", &odd.filtered)?,
            unwanted_deliveries: deliveries_of(stage, "initech", &odd.unwanted)?,
            own_status: status_for(stage, "acme", &odd.repeated)?,
            foreign_status: status_for(stage, "globex", &odd.repeated)?,
            requests: notes.iter().map(|notes| notes.deliveries.len() as u64).sum(),
            requests_verified: verified(stage, &notes, now),
            signature: shown(stage, &notes, now),
        })
    }
}

fn row(actor: &Actor, notes: &Notes, tally: &Tally, accepted: &[Vec<Accepted>]) -> Row {
    let number = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).ok()?["n"].as_u64();
    Row {
        role: actor.role,
        tenant: actor.role.tenant,
        receiver: actor.role.name,
        temper: actor.role.temper_text(),
        tally: tally.clone(),
        requests: notes.deliveries.len() as u64,
        challenges: notes.challenges as u64,
        due: wanted(actor, accepted).map(|accepted| accepted.publication.n).collect(),
        // A body without a number is none of ours; 0 is no event's number, so it shows.
        taken: notes.taken().map(|delivery| number(&delivery.body).unwrap_or(0)).collect(),
    }
}

/// How often each receiver that wants `repeated` took it.
fn copies(stage: &Stage, notes: &[Notes], repeated: &Accepted) -> Vec<u64> {
    let id = repeated.id.to_string();
    let takes = |notes: &Notes| notes.taken().filter(|one| one.header("webhook-id") == Some(id.as_str())).count();
    let concerned = |actor: &Actor| actor.role.tenant == "acme" && actor.role.wants(&repeated.publication);
    let all = stage.actors.iter().zip(notes);
    all.filter(|(actor, _)| concerned(actor)).map(|(_, notes)| takes(notes) as u64).collect()
}

fn verified(stage: &Stage, notes: &[Notes], now: Time) -> u64 {
    let of_one = |(actor, notes): (&Actor, &Notes)| {
        notes.deliveries.iter().filter(|(delivery, _)| verifies(&actor.secret, delivery, now)).count() as u64
    };
    stage.actors.iter().zip(notes).map(of_one).sum()
}

/// The first delivery that the first receiver took.
fn shown(stage: &Stage, notes: &[Notes], now: Time) -> Option<Proof> {
    let (actor, notes) = (stage.actors.first()?, notes.first()?);
    notes.taken().next().map(|delivery| Proof::of(actor.role.name, &actor.secret, delivery, now))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::plan::ROLES;
    use super::super::receiver::Temper;
    use super::*;

    /// Facts in which every receiver got what it was due.
    pub fn facts() -> Facts {
        let receivers: Vec<Row> = ROLES.iter().map(row_of).collect();
        Facts {
            hub: "http://127.0.0.1:1".to_owned(),
            elapsed_ms: 3_400,
            accepted: 2,
            requests: receivers.iter().map(|row| row.requests).sum(),
            requests_verified: receivers.iter().map(|row| row.requests).sum(),
            receivers,
            duplicate: Duplicate { event_id: "7".to_owned(), status: 200, marked: true, taken: vec![1] },
            malformed: Refused { status: 400, code: "bad_specversion".to_owned(), detail: "no".to_owned() },
            filtered_deliveries: Some(0),
            unwanted_deliveries: Some(0),
            own_status: 200,
            foreign_status: 404,
            signature: Some(proof()),
        }
    }

    fn row_of(role: &'static Role) -> Row {
        let (delivered, waiting, dead_lettered, attempts, circuit) = match role.temper {
            Temper::Healthy | Temper::Challenged => (2, 0, 0, 2, "closed"),
            Temper::Recovering { failures } => (2, 0, 0, 2 + failures as u64, "closed"),
            Temper::Failing => (0, 0, 2, 4, "closed"),
            Temper::Hanging => (0, 2, 0, u64::from(role.threshold), "open"),
        };
        let circuit_moved = matches!(role.temper, Temper::Recovering { .. } | Temper::Hanging);
        Row {
            role,
            tenant: role.tenant,
            receiver: role.name,
            temper: role.temper_text(),
            tally: Tally {
                matched: 2,
                delivered,
                waiting,
                dead_lettered,
                exhausted: dead_lettered,
                attempts,
                circuit: circuit.to_owned(),
                circuit_moved,
            },
            requests: attempts,
            challenges: u64::from(role.temper == Temper::Challenged),
            due: vec![1, 2],
            taken: if delivered == 2 { vec![1, 2] } else { Vec::new() },
        }
    }

    fn proof() -> Proof {
        Proof {
            receiver: "ledger",
            event_type: "loan.approved".to_owned(),
            webhook_id: "017f22e2-79b0-7cc3-98c4-dc0c0c07398f".to_owned(),
            webhook_timestamp: "1700000000".to_owned(),
            webhook_signature: "v1,AAAA".to_owned(),
            body: "{}".to_owned(),
            recomputed: "v1,AAAA".to_owned(),
            verified: true,
            forgery_verified: false,
        }
    }
}
