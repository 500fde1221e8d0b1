//! The alphabet of the stored form: varints, fixed bytes, texts and blobs, written to a buffer and read back.

use bytes::Bytes;
use uuid::Uuid;

use super::CodecError;
use crate::types::Time;

/// Appends `value` as a LEB128 varint: 1 to 10 bytes.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a point in time.
pub fn put_time(out: &mut Vec<u8>, at: Time) {
    put_varint(out, at.0);
}

/// Appends 16 bytes.
pub fn put_uuid(out: &mut Vec<u8>, id: Uuid) {
    out.extend_from_slice(id.as_bytes());
}

/// Appends a length and that many bytes.
pub fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a length and that many bytes of UTF-8.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_blob(out, text.as_bytes());
}

/// Appends 0 for `None`; 1 and what `put` writes for `Some`.
pub fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            put(out, value);
        }
    }
}

/// Appends named values such as headers, in order.
pub fn put_headers(out: &mut Vec<u8>, headers: &[(Box<str>, Bytes)]) {
    put_varint(out, headers.len() as u64);
    for (name, value) in headers {
        put_text(out, name);
        put_blob(out, value);
    }
}

/// Reads one record from its bytes.
#[derive(Debug)]
pub struct Reader<'a> {
    kind: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins a record of `kind`, as its errors call it.
    #[must_use]
    pub const fn new(kind: &'static str, bytes: &'a [u8]) -> Self {
        Self { kind, rest: bytes }
    }

    /// Begins a record whose first byte must be `version`.
    ///
    /// # Errors
    /// [`CodecError::Version`] for another version, [`CodecError::Truncated`] without one.
    pub fn versioned(kind: &'static str, version: u8, bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = Self::new(kind, bytes);
        let found = reader.byte()?;
        if found == version { Ok(reader) } else { Err(CodecError::Version { kind, found }) }
    }

    /// The error for a `field` whose value stands for nothing.
    #[must_use]
    pub const fn fault(&self, field: &'static str) -> CodecError {
        CodecError::Value { kind: self.kind, field }
    }

    /// All bytes that are left.
    pub fn remainder(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Goes on reading at `rest`, a part of what [`Reader::remainder`] gave.
    pub const fn restore(&mut self, rest: &'a [u8]) {
        self.rest = rest;
    }

    /// Whether no bytes are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Ends the record.
    ///
    /// # Errors
    /// [`CodecError::Trailing`] when bytes are left.
    pub const fn finish(self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CodecError::Trailing(self.kind)) }
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] when there are fewer; so for all methods below.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (head, tail) = self.rest.split_at_checked(length).ok_or(CodecError::Truncated(self.kind))?;
        self.rest = tail;
        Ok(head)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`CodecError::Truncated`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(CodecError::Truncated(self.kind))?;
        self.rest = tail;
        Ok(*head)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`CodecError::Truncated`].
    pub fn byte(&mut self) -> Result<u8, CodecError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A varint.
    ///
    /// # Errors
    /// [`CodecError::Value`] when it does not fit 64 bits.
    pub fn varint(&mut self) -> Result<u64, CodecError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.fault("varint"))
    }

    /// A varint that fits `T`.
    ///
    /// # Errors
    /// [`CodecError::Value`] naming `field` when it does not.
    pub fn number<T: TryFrom<u64>>(&mut self, field: &'static str) -> Result<T, CodecError> {
        T::try_from(self.varint()?).map_err(|_| self.fault(field))
    }

    /// A point in time.
    ///
    /// # Errors
    /// As [`Reader::varint`].
    pub fn time(&mut self) -> Result<Time, CodecError> {
        self.varint().map(Time)
    }

    /// 16 bytes.
    ///
    /// # Errors
    /// [`CodecError::Truncated`].
    pub fn uuid(&mut self) -> Result<Uuid, CodecError> {
        self.array().map(Uuid::from_bytes)
    }

    /// A byte that is 0 or 1.
    ///
    /// # Errors
    /// [`CodecError::Value`] naming `field` for other bytes.
    pub fn flag(&mut self, field: &'static str) -> Result<bool, CodecError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            2.. => Err(self.fault(field)),
        }
    }

    /// A blob.
    ///
    /// # Errors
    /// [`CodecError::Truncated`].
    pub fn blob(&mut self) -> Result<&'a [u8], CodecError> {
        let length = self.number("length")?;
        self.take(length)
    }

    /// A text.
    ///
    /// # Errors
    /// [`CodecError::Value`] naming `field` when it is not UTF-8.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, CodecError> {
        std::str::from_utf8(self.blob()?).map_err(|_| self.fault(field))
    }

    /// What [`put_option`] wrote.
    ///
    /// # Errors
    /// As `read`.
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        if self.flag("option")? { read(self).map(Some) } else { Ok(None) }
    }

    /// A list: its length, then its items.
    ///
    /// # Errors
    /// As `read`.
    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, CodecError>) -> Result<Vec<T>, CodecError> {
        let length: usize = self.number("length")?;
        // An item takes a byte at least: a forged length reserves no more than the bytes are worth.
        let mut items = Vec::with_capacity(length.min(self.rest.len()).min(1024));
        for _ in 0..length {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// What [`put_headers`] wrote.
    ///
    /// # Errors
    /// As [`Reader::text`].
    pub fn headers(&mut self) -> Result<Vec<(Box<str>, Bytes)>, CodecError> {
        self.list(|reader| Ok((reader.text("header")?.into(), Bytes::copy_from_slice(reader.blob()?))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_round_trip(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = Reader::new("test", &out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn any_bytes_are_a_varint_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let _ = Reader::new("test", &bytes).varint();
            let _ = Reader::new("test", &bytes).headers();
        }
    }

    #[test]
    fn an_endless_varint_is_an_error() {
        assert_eq!(Reader::new("test", &[0xff; 11]).varint(), Err(CodecError::Value { kind: "test", field: "varint" }));
    }
}
