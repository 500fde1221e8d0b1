//! Reads JSON bodies member by member, so that every fault is found and named by its pointer.
//!
//! [`Fields`] gives up a member once it is taken; what is left at the end is unknown, and unknown members are
//! faults. A reader never stops at the first fault: it notes it and goes on.

use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::{Faults, Problem};

/// A member of a body: absent keeps what is stored, `null` clears it or sets the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// Not in the body, or faulty (then the fault is noted).
    #[default]
    Absent,
    /// `null`.
    Null,
    /// A value of the right kind.
    Set(T),
}

impl<T> Field<T> {
    /// What stands afterwards, where `null` means the default.
    #[must_use]
    pub fn over(self, stored: T, default: T) -> T {
        match self {
            Self::Absent => stored,
            Self::Null => default,
            Self::Set(value) => value,
        }
    }

    /// What stands afterwards, where `null` means nothing.
    #[must_use]
    pub fn over_optional(self, stored: Option<T>) -> Option<T> {
        match self {
            Self::Absent => stored,
            Self::Null => None,
            Self::Set(value) => Some(value),
        }
    }

    /// The value, if one was given.
    #[must_use]
    pub fn value(self) -> Option<T> {
        self.over_optional(None)
    }

    /// Whether the member is not in the body.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Turns the value; one that `turn` refuses counts as absent (its fault is noted there).
    pub fn and_then<U>(self, turn: impl FnOnce(T) -> Option<U>) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Null => Field::Null,
            Self::Set(value) => turn(value).map_or(Field::Absent, Field::Set),
        }
    }
}

/// The members of one JSON object that have not been read yet.
#[derive(Clone, Debug)]
pub struct Fields {
    at: String,
    members: Map<String, Value>,
}

impl Fields {
    /// The members of a request's body; an empty body counts as `{}`.
    ///
    /// # Errors
    /// 400 `malformed_json` for anything that is not JSON, 422 for JSON that is no object.
    pub fn of_body(body: &[u8]) -> Result<Self, Problem> {
        if body.is_empty() {
            return Ok(Self { at: String::new(), members: Map::new() });
        }
        let value = serde_json::from_slice(body)
            .map_err(|error| Problem::new(400, "malformed_json", format!("the body is not JSON: {error}")))?;
        match value {
            Value::Object(members) => Ok(Self { at: String::new(), members }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(Problem::unprocessable("invalid_request", "", "the body must be a JSON object"))
            }
        }
    }

    /// The members of `value`, which stands at `at`; anything but an object is noted as a fault.
    pub fn of_value(at: String, value: Value, faults: &mut Faults) -> Option<Self> {
        if let Value::Object(members) = value {
            return Some(Self { at, members });
        }
        faults.add(at, "must be an object");
        None
    }

    /// The JSON pointer of member `name` (RFC 6901).
    #[must_use]
    pub fn pointer(&self, name: &str) -> String {
        format!("{}/{}", self.at, name.replace('~', "~0").replace('/', "~1"))
    }

    /// Whether a member is there and not read yet.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Takes a member as it is.
    pub fn take(&mut self, name: &str) -> Field<Value> {
        match self.members.remove(name) {
            None => Field::Absent,
            Some(Value::Null) => Field::Null,
            Some(value) => Field::Set(value),
        }
    }

    /// Takes a text of at most `max_bytes`.
    pub fn text(&mut self, name: &str, max_bytes: usize, faults: &mut Faults) -> Field<String> {
        let pointer = self.pointer(name);
        self.take(name).and_then(|value| {
            let Value::String(text) = value else { return note(faults, pointer, "must be a string".to_owned()) };
            let fits = text.len() <= max_bytes;
            if fits { Some(text) } else { note(faults, pointer, format!("must be at most {max_bytes} bytes")) }
        })
    }

    /// Takes a whole number within `range`.
    pub fn whole(&mut self, name: &str, range: RangeInclusive<u32>, faults: &mut Faults) -> Field<u32> {
        let pointer = self.pointer(name);
        self.take(name).and_then(|value| {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let rule = || format!("must be a whole number from {} to {}", range.start(), range.end());
            number.filter(|number| range.contains(number)).or_else(|| note(faults, pointer, rule()))
        })
    }

    /// Takes `true` or `false`.
    pub fn flag(&mut self, name: &str, faults: &mut Faults) -> Field<bool> {
        let pointer = self.pointer(name);
        let value = self.take(name);
        value.and_then(|value| value.as_bool().or_else(|| note(faults, pointer, "must be true or false".to_owned())))
    }

    /// Takes one of a few words; `words` names them for the fault.
    pub fn word<T: DeserializeOwned>(&mut self, name: &str, words: &str, faults: &mut Faults) -> Field<T> {
        let pointer = self.pointer(name);
        self.take(name).and_then(|value| {
            serde_json::from_value(value).ok().or_else(|| note(faults, pointer, format!("must be one of {words}")))
        })
    }

    /// Takes a list of at most `max` entries.
    pub fn list(&mut self, name: &str, max: usize, faults: &mut Faults) -> Field<Vec<Value>> {
        let pointer = self.pointer(name);
        self.take(name).and_then(|value| {
            let Value::Array(list) = value else { return note(faults, pointer, "must be an array".to_owned()) };
            let fits = list.len() <= max;
            if fits { Some(list) } else { note(faults, pointer, format!("must have at most {max} entries")) }
        })
    }

    /// Takes an object.
    pub fn object(&mut self, name: &str, faults: &mut Faults) -> Field<Self> {
        let pointer = self.pointer(name);
        self.take(name).and_then(|value| Self::of_value(pointer, value, faults))
    }

    /// Takes members that this version does not have yet: anything but `null` is a fault.
    pub fn later(&mut self, names: &[&str], faults: &mut Faults) {
        for name in names {
            if let Field::Set(_) = self.take(name) {
                faults.add(self.pointer(name), format!("`{name}` is not available in this version"));
            }
        }
    }

    /// Takes members that only the hub sets: any value is a fault.
    pub fn read_only(&mut self, names: &[&str], faults: &mut Faults) {
        for name in names {
            if !self.take(name).is_absent() {
                faults.add(self.pointer(name), format!("`{name}` is read-only"));
            }
        }
    }

    /// Notes every member that nobody took.
    pub fn finish(self, faults: &mut Faults) {
        for name in self.members.keys() {
            faults.add(self.pointer(name), "is not a known field");
        }
    }
}

fn note<T>(faults: &mut Faults, pointer: String, detail: String) -> Option<T> {
    faults.add(pointer, detail);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        Fields::of_value(String::new(), value, &mut Faults::default()).expect("an object")
    }

    fn pointers(faults: Faults) -> Vec<String> {
        faults.check().expect_err("faults").errors.into_iter().map(|fault| fault.pointer).collect()
    }

    #[test]
    fn every_kind_names_its_fault_and_the_rest_is_unknown() {
        let mut faults = Faults::default();
        let mut body = fields(json!({
            "text": 1, "long": "xxx", "whole": 0, "part": 1.5, "flag": "yes", "word": "no", "list": {},
            "many": [1, 2], "object": [], "transform": "x", "id": "x", "a/b~c": 1,
        }));
        assert_eq!(body.text("text", 9, &mut faults), Field::Absent);
        assert_eq!(body.text("long", 2, &mut faults), Field::Absent);
        assert_eq!(body.whole("whole", 1..=9, &mut faults), Field::Absent);
        assert_eq!(body.whole("part", 1..=9, &mut faults), Field::Absent);
        assert_eq!(body.flag("flag", &mut faults), Field::Absent);
        assert_eq!(body.word::<bool>("word", "true, false", &mut faults), Field::Absent);
        assert_eq!(body.list("list", 1, &mut faults), Field::Absent);
        assert_eq!(body.list("many", 1, &mut faults), Field::Absent);
        assert!(body.object("object", &mut faults).is_absent());
        body.later(&["transform", "other"], &mut faults);
        body.read_only(&["id"], &mut faults);
        body.finish(&mut faults);
        let expected = [
            "/text",
            "/long",
            "/whole",
            "/part",
            "/flag",
            "/word",
            "/list",
            "/many",
            "/object",
            "/transform",
            "/id",
            "/a~1b~0c",
        ];
        assert_eq!(pointers(faults), expected);
    }

    #[test]
    fn a_merge_keeps_clears_and_sets() {
        let mut faults = Faults::default();
        let mut body = fields(json!({"a": null, "b": 7}));
        assert_eq!(body.whole("a", 1..=9, &mut faults).over(3, 5), 5);
        assert_eq!(body.whole("b", 1..=9, &mut faults).over_optional(Some(3)), Some(7));
        assert_eq!(body.whole("c", 1..=9, &mut faults).over(3, 5), 3);
        assert!(faults.is_empty());
    }

    #[test]
    fn a_body_that_is_no_object_is_refused() {
        assert_eq!(Fields::of_body(b"{").expect_err("broken").status, 400);
        assert_eq!(Fields::of_body(b"[]").expect_err("an array").status, 422);
        assert!(Fields::of_body(b"").is_ok());
    }
}
