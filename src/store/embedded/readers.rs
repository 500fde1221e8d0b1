//! The reader threads: they answer the engines' reads and the API's queries off the shards.

use super::read;
use super::tables::Tables;
use crate::engine::{Read, ReadId};
use crate::store::StoreEvent;

/// A read of an engine.
#[derive(Debug)]
pub struct Question {
    /// Whom to answer.
    pub events: flume::Sender<StoreEvent>,
    /// The engine's number for it.
    pub id: ReadId,
    /// What it wants to know.
    pub read: Read,
}

/// A query of the API: it reads and answers by itself.
pub type Query = Box<dyn FnOnce(&Tables) + Send>;

/// Answers questions until every sender is gone.
pub fn answer_questions(tables: &Tables, questions: &flume::Receiver<Question>) {
    for question in questions {
        let answer = Box::new(read::answer(tables, &question.read));
        // A shard that is gone needs no answer.
        let _ = question.events.send(StoreEvent::Loaded(question.id, answer));
    }
}

/// Runs queries until every sender is gone.
pub fn run_queries(tables: &Tables, queries: &flume::Receiver<Query>) {
    for query in queries {
        query(tables);
    }
}
