//! Raw settings: texts with their origins, gathered from file, environment and flags; nothing is judged but names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{ConfigFault, Origin};
use super::setting::{self, Exposure, Fallback, SETTINGS, Setting, VARIABLE_PREFIX};

/// A text and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawValue {
    /// As written.
    pub text: String,
    /// By whom.
    pub origin: Origin,
}

/// What was set, by key, and the environment a key-encryption key may be read from.
#[derive(Debug, Default)]
pub struct RawSettings {
    values: BTreeMap<&'static str, RawValue>,
    environment: BTreeMap<String, String>,
    faults: Vec<ConfigFault>,
}

impl RawSettings {
    /// Gathers in order of precedence: file, environment, flags; later ones win.
    pub fn gather(
        file: Option<&Path>,
        environment: impl Iterator<Item = (OsString, OsString)>,
        flags: impl Iterator<Item = (String, String)>,
    ) -> Self {
        let mut raw = Self::default();
        if let Some(path) = file {
            raw.read_file(path);
        }
        raw.read_environment(environment);
        flags.for_each(|(key, text)| raw.read_flag(&key, text));
        raw
    }

    /// What was set for `key`.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&RawValue> {
        self.values.get(key)
    }

    /// The environment variable `name`, whether or not it is the hub's.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// The faults met so far; they are taken away.
    pub fn take_faults(&mut self) -> Vec<ConfigFault> {
        std::mem::take(&mut self.faults)
    }

    fn put(&mut self, setting: &'static Setting, text: String, origin: Origin) {
        self.values.insert(setting.key, RawValue { text, origin });
    }

    fn read_file(&mut self, path: &Path) {
        let place = |line| Origin::File { path: path.to_owned(), line };
        match std::fs::read_to_string(path) {
            Ok(text) => self.read_toml(&text, &place),
            Err(error) => {
                let rule = format!("must be a readable TOML file: {error}");
                let value = Some(format!("{:?}", path.display().to_string()));
                self.faults.push(ConfigFault { key: "--config".to_owned(), value, rule, origin: place(0) });
            }
        }
    }

    /// Reads a file's text. A syntax error's message has no excerpt of the file, which may hold secrets.
    fn read_toml(&mut self, text: &str, place: &impl Fn(usize) -> Origin) {
        let line =
            |offset: usize| text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let origin = place(error.span().map_or(0, |span| line(span.start)));
            let rule = format!("must be TOML: {}", error.message());
            self.faults.push(ConfigFault { key: "--config".to_owned(), value: None, rule, origin });
        }
        self.read_table(table.get_ref(), "", &|offset| place(line(offset)));
    }

    fn read_table(&mut self, table: &DeTable<'_>, prefix: &str, place: &impl Fn(usize) -> Origin) {
        for (name, value) in table {
            let key =
                if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
            let origin = place(name.span().start);
            let group = SETTINGS.iter().any(|s| s.key.strip_prefix(&key).is_some_and(|rest| rest.starts_with('.')));
            match (value.get_ref(), setting::by_key(&key)) {
                (DeValue::Table(inner), None) if group => self.read_table(inner, &key, place),
                (_, Some(setting)) => match toml_text(value) {
                    Ok(text) => self.put(setting, text, origin),
                    Err(rule) => self.faults.push(ConfigFault::of(setting, None, rule, origin)),
                },
                (_, None) => self.faults.push(ConfigFault::unknown(&key, SETTINGS.iter().map(|s| s.key), origin)),
            }
        }
    }

    /// Takes the hub's variables; an empty one counts as not set. One that the key-encryption key is read from
    /// may have any name.
    fn read_environment(&mut self, environment: impl Iterator<Item = (OsString, OsString)>) {
        let mut unknown = Vec::new();
        for (name, text) in environment {
            let Ok(name) = name.into_string() else { continue };
            let origin = Origin::Variable(name.clone());
            match (text.into_string(), setting::by_variable(&name)) {
                (Ok(text), Some(setting)) if !text.is_empty() => self.put(setting, text, origin),
                (Err(_), Some(setting)) => self.faults.push(ConfigFault::of(setting, None, "must be UTF-8", origin)),
                (Ok(text), None) => {
                    unknown.extend(name.starts_with(VARIABLE_PREFIX).then(|| name.clone()));
                    self.environment.insert(name, text);
                }
                (Ok(_), Some(_)) | (Err(_), None) => {}
            }
        }
        let reference = self.value("security.kek_ref").map(|raw| raw.text.clone());
        unknown.retain(|name| Some(name) != reference.as_ref());
        let fault = |name: String| {
            ConfigFault::unknown(&name, SETTINGS.iter().map(|s| s.variable), Origin::Variable(name.clone()))
        };
        self.faults.extend(unknown.into_iter().map(fault));
    }

    fn read_flag(&mut self, key: &str, text: String) {
        let origin = Origin::Flag(format!("--{key}"));
        match setting::by_key(key).filter(|setting| setting.exposure == Exposure::Open) {
            Some(setting) => self.put(setting, text, origin),
            None => self.faults.push(ConfigFault::unknown(key, SETTINGS.iter().map(|s| s.key), origin)),
        }
    }
}

/// The text of a setting's fallback, if it has one.
#[must_use]
pub fn fallback_text(fallback: Fallback, production: bool) -> Option<&'static str> {
    match fallback {
        Fallback::Unset => None,
        Fallback::Text(text) => Some(text),
        Fallback::PerEnvironment { local, production: other } => Some(if production { other } else { local }),
    }
}

/// A TOML value as the text a variable would hold; arrays are joined with commas.
fn toml_text(value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        DeValue::Array(entries) => {
            entries.iter().map(toml_text).collect::<Result<Vec<_>, _>>().map(|all| all.join(","))
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => Err(format!(
            "must be a string, an integer, a boolean or an array of them, not a {}",
            value.get_ref().type_str()
        )),
    }
}
