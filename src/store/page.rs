//! Pages of lists and the opaque cursors between them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Longest cursor in bytes: a tenant, a time and a place.
const CURSOR_MAX_BYTES: usize = 512;

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// In the list's order. It may have fewer items than asked for, even none, while there is a `next`: a
    /// page ends when it has read as much as one call may.
    pub items: Vec<T>,
    /// Where the next page begins; absent at the list's end.
    pub next: Option<Cursor>,
}

/// Where a page of a list begins: opaque outside the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(Vec<u8>);

/// A text or bytes that are no cursor of the list they are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list")]
pub struct CursorError;

impl Cursor {
    /// A cursor of these bytes.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, when there are exactly `N`.
    ///
    /// # Errors
    /// [`CursorError`] when there are more or fewer.
    pub fn exactly<const N: usize>(&self) -> Result<[u8; N], CursorError> {
        self.0.as_slice().try_into().map_err(|_| CursorError)
    }

    /// The text form, base64url (RFC 4648, section 5) without padding.
    #[must_use]
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0)
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// [`CursorError`] when it is none.
    pub fn parse(text: &str) -> Result<Self, CursorError> {
        if text.len() > CURSOR_MAX_BYTES * 4 / 3 {
            return Err(CursorError);
        }
        URL_SAFE_NO_PAD.decode(text).map(Self).map_err(|_| CursorError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_as_text() {
        let cursor = Cursor::new(vec![0, 255, 7]);
        assert_eq!(Cursor::parse(&cursor.to_text()), Ok(cursor.clone()));
        assert_eq!(cursor.exactly::<3>(), Ok([0, 255, 7]));
        assert_eq!(cursor.exactly::<4>(), Err(CursorError));
        assert_eq!(Cursor::parse("no cursor!"), Err(CursorError));
        assert_eq!(Cursor::parse(&"A".repeat(4096)), Err(CursorError));
    }
}
