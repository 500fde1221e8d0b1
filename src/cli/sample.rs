//! A sample CloudEvent, as `publish` sends it: attributes and data.

use clap::Args;
use uuid::Uuid;

use super::{CommandError, Surroundings, read_input};
use crate::types::ids::uuid_v7;

/// The arguments that make the event.
#[derive(Debug, Args)]
pub struct EventArguments {
    /// `ce-tenantid`; an HTTP source may leave it out, since it has a tenant of its own
    #[arg(long)]
    pub tenant: Option<String>,
    /// `ce-source`: the producing application, or the slug of the HTTP source
    #[arg(long, default_value = "sample")]
    pub source: String,
    /// The event key, `<resource>.<event>`
    #[arg(long, default_value = "sample.created", value_parser = parse_event_key)]
    pub event: (String, String),
    /// What `ce-type` begins with
    #[arg(long, default_value = "studio.lerian")]
    pub type_prefix: String,
    /// `ce-id`, a UUID; made anew when absent
    #[arg(long)]
    pub id: Option<Uuid>,
    /// `ce-subject`
    #[arg(long)]
    pub subject: Option<String>,
    /// `ce-schemaversion`
    #[arg(long, default_value = "1.0.0")]
    pub schema_version: String,
    /// The data's content type
    #[arg(long, default_value = "application/json")]
    pub content_type: String,
    /// The data, as text
    #[arg(long, default_value = r#"{"message":"hello"}"#, conflicts_with = "data_file")]
    pub data: String,
    /// The file with the data; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub data_file: Option<String>,
}

fn parse_event_key(text: &str) -> Result<(String, String), &'static str> {
    let parts = text.split_once('.').filter(|(resource, event)| !resource.is_empty() && !event.is_empty());
    parts.map(|(resource, event)| (resource.to_owned(), event.to_owned())).ok_or("must be `<resource>.<event>`")
}

/// An event ready to be sent.
pub struct SampleEvent {
    /// `ce-id`.
    pub id: String,
    /// Header names and values, `ce-` attributes and the content type; values as they are, not encoded.
    pub headers: Vec<(&'static str, String)>,
    /// The data.
    pub data: Vec<u8>,
}

impl SampleEvent {
    /// Makes the event.
    ///
    /// # Errors
    /// When the data can't be read, a value has control characters, or there is no randomness for the id.
    pub fn make(arguments: &EventArguments, surroundings: &mut Surroundings<'_>) -> Result<Self, CommandError> {
        let data = match &arguments.data_file {
            Some(path) => read_input("--data-file", path, surroundings)?,
            None => arguments.data.clone().into_bytes(),
        };
        let now = surroundings.clock.now();
        let id = arguments.id.map_or_else(|| random().map(|random| uuid_v7(now, random)), Ok)?.to_string();
        let headers = headers(arguments, &id, now.to_rfc3339());
        match headers.iter().find(|(_, value)| value.chars().any(char::is_control)) {
            Some((name, value)) => {
                let rule = "must have no control characters".to_owned();
                Err(CommandError::Argument { argument: name, value: value.clone(), rule })
            }
            None => Ok(Self { id, headers, data }),
        }
    }
}

fn headers(arguments: &EventArguments, id: &str, time: String) -> Vec<(&'static str, String)> {
    let (resource, event) = &arguments.event;
    let kind = format!("{}.{}.{resource}.{event}", arguments.type_prefix, arguments.source);
    let required = [
        ("ce-specversion", "1.0".to_owned()),
        ("ce-id", id.to_owned()),
        ("ce-source", arguments.source.clone()),
        ("ce-type", kind),
        ("ce-time", time),
        ("ce-schemaversion", arguments.schema_version.clone()),
        ("ce-resourcetype", resource.clone()),
        ("ce-eventtype", event.clone()),
        ("content-type", arguments.content_type.clone()),
    ];
    let optional = [("ce-tenantid", arguments.tenant.clone()), ("ce-subject", arguments.subject.clone())];
    required.into_iter().chain(optional.into_iter().filter_map(|(name, value)| Some((name, value?)))).collect()
}

fn random() -> Result<u128, CommandError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| CommandError::Failed(format!("no randomness: {error}")))?;
    Ok(u128::from_le_bytes(bytes))
}
