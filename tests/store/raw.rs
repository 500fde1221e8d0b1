//! The server as its own clients see it, past the hub: what stands in the tables, and what crashes and late writes leave there.

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::serialize::row::SerializeRow;
use streaming_hub::store::scylla::ClusterSettings;

use super::cassandra::{NODE, USER};

/// A connection to one keyspace.
pub struct Raw {
    runtime: tokio::runtime::Runtime,
    session: Session,
}

impl Raw {
    /// Connects.
    pub fn connect(cluster: &ClusterSettings) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let session = runtime.block_on(async {
            let built = SessionBuilder::new().known_node(NODE).user(USER, USER).build().await;
            let session = built.expect("the server is there");
            session.use_keyspace(&cluster.keyspace, true).await.expect("the keyspace is there");
            session
        });
        Self { runtime, session }
    }

    /// Carries out a statement that gives no rows.
    pub fn run(&self, text: &str, values: impl SerializeRow) {
        self.runtime.block_on(self.session.query_unpaged(text, values)).expect("the server takes it");
    }

    /// The rows of a statement.
    pub fn rows<R>(&self, text: &str, values: impl SerializeRow) -> Vec<R>
    where
        R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
    {
        let answer = self.runtime.block_on(self.session.query_unpaged(text, values)).expect("the server takes it");
        let rows = answer.into_rows_result().expect("rows");
        rows.rows::<R>().expect("of these columns").map(|row| row.expect("of these types")).collect()
    }
}
