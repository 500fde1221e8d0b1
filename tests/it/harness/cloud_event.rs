//! An event as a producer sends it over HTTP, in each of CloudEvents' modes.

use serde_json::{Value, json};

use super::time::uuid_v7;

/// One event; headers can be replaced or taken away to break it.
#[derive(Clone)]
pub struct CloudEvent {
    pub id: String,
    pub resource: String,
    pub name: String,
    pub content_type: Option<String>,
    pub data: Vec<u8>,
    /// Headers to replace (`Some`), add, or leave out (`None`).
    changes: Vec<(String, Option<String>)>,
}

impl CloudEvent {
    /// A new event of the key `<resource>.<name>`.
    pub fn new(resource: &str, name: &str) -> Self {
        Self {
            id: uuid_v7(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            content_type: Some("application/json".to_owned()),
            data: b"{}".to_vec(),
            changes: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    #[must_use]
    pub fn with_type(mut self, content_type: Option<&str>) -> Self {
        self.content_type = content_type.map(str::to_owned);
        self
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.changes.push((name.to_owned(), Some(value.to_owned())));
        self
    }

    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.changes.push((name.to_owned(), None));
        self
    }

    /// Its headers in binary mode, from the source with that slug.
    pub fn headers(&self, slug: &str) -> Vec<(String, String)> {
        let (resource, name) = (&self.resource, &self.name);
        let mut headers: Vec<(String, String)> = [
            ("ce-specversion", "1.0".to_owned()),
            ("ce-id", self.id.clone()),
            ("ce-source", slug.to_owned()),
            ("ce-type", format!("studio.lerian.{slug}.{resource}.{name}")),
            ("ce-time", "2026-01-31T08:00:00Z".to_owned()),
            ("ce-schemaversion", "1.2.0".to_owned()),
            ("ce-resourcetype", resource.clone()),
            ("ce-eventtype", name.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        headers.extend(self.content_type.iter().map(|value| ("content-type".to_owned(), value.clone())));
        for (name, value) in &self.changes {
            headers.retain(|(known, _)| known != name);
            headers.extend(value.iter().map(|value| (name.clone(), value.clone())));
        }
        headers
    }

    /// The same in the JSON format; the data, which must be JSON, word for word.
    pub fn structured(&self, slug: &str) -> String {
        let attributes = self.headers(slug).into_iter().filter_map(|(name, value)| {
            let name = if name == "content-type" { "datacontenttype" } else { name.strip_prefix("ce-")? };
            Some((name.to_owned(), Value::String(value)))
        });
        let object = json!(attributes.collect::<serde_json::Map<_, _>>()).to_string();
        let data = String::from_utf8_lossy(&self.data);
        format!("{},\"data\":{data}}}", object.trim_end_matches('}'))
    }
}
