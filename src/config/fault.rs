//! What is wrong with a configuration, and where it came from.

use std::fmt;
use std::path::PathBuf;

use super::setting::{Exposure, Setting};

/// Shown instead of a secret.
pub const REDACTED: &str = "(redacted)";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the configuration file, from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line; 0 when the file as a whole is meant.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line, with its dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: 0 } => write!(f, "{}", path.display()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigFault {
    /// The setting's key, or what was written where a key was expected.
    pub key: String,
    /// The value, when there is one; redacted if secret.
    pub value: Option<String>,
    /// The rule that is broken.
    pub rule: String,
    /// Where it came from.
    pub origin: Origin,
}

impl ConfigFault {
    /// A fault of `setting`'s value.
    #[must_use]
    pub fn of(setting: &Setting, value: Option<&str>, rule: impl Into<String>, origin: Origin) -> Self {
        let value = value.map(|text| shown(setting, text));
        Self { key: setting.key.to_owned(), value, rule: rule.into(), origin }
    }

    /// `written` is the name of no setting; `names` are those it may have meant.
    #[must_use]
    pub fn unknown<'a>(written: &str, names: impl Iterator<Item = &'a str>, origin: Origin) -> Self {
        let rule = match nearest(written, names) {
            Some(name) => format!("is not a setting; did you mean `{name}`?"),
            None => "is not a setting".to_owned(),
        };
        Self { key: written.to_owned(), value: None, rule, origin }
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {} ({})", self.rule, self.origin)
    }
}

/// A value as a person may see it: secrets redacted, control characters escaped.
#[must_use]
pub fn shown(setting: &Setting, value: &str) -> String {
    match setting.exposure {
        Exposure::Secret => REDACTED.to_owned(),
        Exposure::Open => format!("{value:?}"),
    }
}

/// The name most like `written`, if one is like it at all: at most a third of its letters differ.
fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (written.chars().count() / 3).max(1);
    names.map(|name| (distance(written, name), name)).filter(|(d, _)| *d <= bound).min().map(|(_, name)| name)
}

/// The Levenshtein distance.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let names = ["kafka.brokers", "kafka.group"];
        assert_eq!(nearest("kafka.broker", names.into_iter()), Some("kafka.brokers"));
        assert_eq!(nearest("colour", names.into_iter()), None);
    }
}
