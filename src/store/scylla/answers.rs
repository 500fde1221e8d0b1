//! How commands ended: left by the owner of a slot for the node that was asked, wherever it is.

use uuid::Uuid;

use super::handle::Scylla;
use super::phase::{Gather, PlannedRow, Stage};
use super::query::Query;
use super::rows::{at_clock, ttl};
use super::statement::{Partition, Statement, Value};
use crate::engine::CommandResult;
use crate::store::StoreError;
use crate::store::codec::command_result;
use crate::types::limits;

impl Scylla {
    /// Keeps for an hour how command `id` ended. When two owners of a slot have carried it out, the later answer stands.
    ///
    /// # Errors
    /// [`StoreError`]; it may be kept all the same.
    pub async fn put_command_result(&self, id: Uuid, result: CommandResult) -> Result<(), StoreError> {
        let mut value = Vec::new();
        command_result::encode(result, &mut value);
        let values = vec![
            Value::Uuid(id),
            Value::Blob(value.into()),
            Value::Int(ttl(limits::COMMAND_RESULT_KEPT)),
            Value::Long(at_clock(self.now())),
        ];
        let mut gather = Gather::default();
        let row = PlannedRow { statement: Statement::PutCommandResult, values };
        gather.put(Stage::Log, Partition::CommandResult(id), row);
        Ok(self.ask(move |session| async move { session.carry_out(gather.finish()).await }).await??)
    }

    /// How command `id` ended; `None` as long as it has not, or when that was more than an hour ago.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn command_result(&self, id: Uuid) -> Result<Option<CommandResult>, StoreError> {
        let rows: Vec<(Option<Vec<u8>>,)> = self
            .ask(move |session| async move { session.rows(Query::CommandResult, &[Value::Uuid(id)]).await })
            .await??;
        let value = rows.into_iter().find_map(|(value,)| value);
        Ok(value.as_deref().map(command_result::decode).transpose()?)
    }
}
