//! One string out of a JSON text by its dot path, read in one pass, without building the document.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::types::limits;

/// The string at `path` in `json`; a number segment indexes an array. `None` when there is none, or `json` is not JSON.
pub(super) fn string_at(json: &[u8], path: &str) -> Option<String> {
    let segments: Vec<&str> = path.split('.').take(limits::FILTER_PATH_SEGMENTS_MAX + 1).collect();
    if segments.len() > limits::FILTER_PATH_SEGMENTS_MAX {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let found = Seek(&segments).deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    found
}

/// Looks for the string at the path below the value it is given.
#[derive(Clone, Copy)]
struct Seek<'p>(&'p [&'p str]);

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = Option<String>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        while let Some(Key(key)) = map.next_key()? {
            match self.0.split_first() {
                Some((first, rest)) if *key == **first => found = map.next_value_seed(Seek(rest))?,
                Some(_) | None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<Self::Value, S::Error> {
        let wanted = self.0.split_first().and_then(|(first, rest)| Some((first.parse::<usize>().ok()?, rest)));
        let mut found = None;
        for index in 0_usize.. {
            let more = match wanted {
                Some((at, rest)) if at == index => items.next_element_seed(Seek(rest))?.map(|value| found = value),
                Some(_) | None => items.next_element::<IgnoredAny>()?.map(drop),
            };
            if more.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_a_string_or_nowhere() {
        let json = br#"{"type":"a","n":1,"deep":{"list":[{"x":"0"},{"x":"1"}],"e\u0041":"esc"},"type":"b"}"#;
        for (path, found) in [
            ("type", Some("b")),
            ("deep.list.1.x", Some("1")),
            ("deep.eA", Some("esc")),
            ("n", None),
            ("deep", None),
            ("deep.list", None),
            ("deep.list.x", None),
            ("deep.list.9.x", None),
            ("type.more", None),
            ("", None),
        ] {
            assert_eq!(string_at(json, path).as_deref(), found, "{path}");
        }
    }

    #[test]
    fn what_is_not_json_has_no_paths() {
        for text in ["", "{", r#"{"a":"x"} y"#, r#"{"a":"x""#, "\u{1f}"] {
            assert_eq!(string_at(text.as_bytes(), "a"), None, "{text}");
        }
        assert_eq!(string_at(br#"{"a":"x"}"#, &vec!["a"; 40].join(".")), None);
    }
}
