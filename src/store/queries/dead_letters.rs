//! Which dead letters a list shows, and the cursor between its pages.

use crate::store::codec::dead_letter::DeadLetter;
use crate::store::codec::key;
use crate::store::{Cursor, CursorError};
use crate::types::{DestinationId, End, EndReason, JobKey, SubscriptionId, TenantId, Time};

/// Which dead letters.
#[derive(Clone, Debug)]
pub struct DeadLettersQuery {
    /// Whose; everybody's for the operator.
    pub tenant: Option<TenantId>,
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// At most so many, 1 to 100.
    pub limit: usize,
    /// Dead-lettered at or after.
    pub from: Option<Time>,
    /// Dead-lettered before.
    pub to: Option<Time>,
    /// Why.
    pub reason: Option<EndReason>,
    /// For which subscription.
    pub subscription: Option<SubscriptionId>,
    /// To which destination.
    pub destination: Option<DestinationId>,
}

impl DeadLettersQuery {
    /// Time and place of what the last page ended with: the page begins before it.
    ///
    /// # Errors
    /// [`CursorError`] for a cursor of another list.
    pub(in crate::store) fn place(&self) -> Result<Option<(Time, JobKey)>, CursorError> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        key::decode_time_and_place(&cursor.exactly::<20>()?).map(Some).map_err(|_| CursorError)
    }

    /// Whether the list shows `letter`; tenant and time were looked at before.
    pub(in crate::store) fn wants(&self, letter: &DeadLetter) -> bool {
        let reason_fits = |reason| matches!(letter.job.end, Some((End::DeadLettered(own), _)) if own == reason);
        self.reason.is_none_or(reason_fits)
            && self.subscription.is_none_or(|id| letter.job.subscription == id)
            && self.destination.is_none_or(|id| letter.job.destination == id)
    }
}

/// The page ended with the dead letter of this time and place.
pub(in crate::store) fn cursor_at(at: Time, place: JobKey) -> Cursor {
    Cursor::new(key::time_and_place(at, place))
}
