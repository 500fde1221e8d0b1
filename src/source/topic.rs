//! Which Kafka topics are followed: `<prefix>.<source>` for delivery, `<prefix>.<source>.dlq` for observation.
//!
//! The broker's list is filtered twice with the same rule: by the regular expressions handed to the client, and
//! by [`Topics::kind`] on what it assigns.

use crate::types::limits;

/// What a topic is to the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicKind<'t> {
    /// A producer's events, to be delivered; holds the `<source>`.
    Events(&'t str),
    /// A producer's dead letters, to be observed only; holds the `<source>`.
    DeadLetters(&'t str),
    /// Anything else, `.commands` topics included: not followed.
    Other,
}

/// The topics of one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    prefix: Box<str>,
}

impl Topics {
    /// The topics that begin with `prefix`, such as `lerian.streaming`; a dot at its end is optional.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { prefix: without_dot(prefix).into() }
    }

    /// What `topic` is to the hub.
    #[must_use]
    pub fn kind<'t>(&self, topic: &'t str) -> TopicKind<'t> {
        let Some(rest) = after_prefix(topic, &self.prefix) else { return TopicKind::Other };
        match rest.strip_suffix(".dlq") {
            Some(source) if is_source_name(source) => TopicKind::DeadLetters(source),
            None if is_source_name(rest) => TopicKind::Events(rest),
            Some(_) | None => TopicKind::Other,
        }
    }

    /// The pattern of the topics followed for delivery, as librdkafka takes it (POSIX extended, beginning with `^`).
    #[must_use]
    pub fn events_pattern(&self) -> String {
        format!(r"^{}\.[a-z0-9][a-z0-9_-]*$", escaped(&self.prefix))
    }

    /// The pattern of the producers' dead-letter topics.
    #[must_use]
    pub fn dead_letters_pattern(&self) -> String {
        format!(r"^{}\.[a-z0-9][a-z0-9_-]*\.dlq$", escaped(&self.prefix))
    }
}

/// Which topics one consumer follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The producers' events, to be delivered.
    Events(Topics),
    /// The producers' dead letters, to be observed only.
    DeadLetters(Topics),
    /// The hub's own topic of this name, whose partitions are the slots.
    Slots(Box<str>),
}

impl Followed {
    /// The pattern of these topics, as librdkafka takes it.
    #[must_use]
    pub fn pattern(&self) -> String {
        match self {
            Self::Events(topics) => topics.events_pattern(),
            Self::DeadLetters(topics) => topics.dead_letters_pattern(),
            Self::Slots(topic) => format!("^{}$", escaped(topic)),
        }
    }

    /// Whether `topic` is one of them.
    #[must_use]
    pub fn includes(&self, topic: &str) -> bool {
        match self {
            Self::Events(topics) => matches!(topics.kind(topic), TopicKind::Events(_)),
            Self::DeadLetters(topics) => matches!(topics.kind(topic), TopicKind::DeadLetters(_)),
            Self::Slots(own) => topic == &**own,
        }
    }
}

/// Whether `text` is a `<source>`: `^[a-z0-9][a-z0-9_-]*$`, at most 223 bytes.
#[must_use]
pub fn is_source_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins = text.bytes().next().is_some_and(plain);
    let continues = text.bytes().all(|byte| plain(byte) || byte == b'_' || byte == b'-');
    begins && continues && text.len() <= limits::SOURCE_NAME_MAX_BYTES
}

/// What follows `<prefix>.` in `text`.
pub(super) fn after_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    text.strip_prefix(prefix)?.strip_prefix('.')
}

/// A prefix as it is kept: without the dot at its end.
pub(super) fn without_dot(prefix: &str) -> &str {
    prefix.strip_suffix('.').unwrap_or(prefix)
}

fn escaped(literal: &str) -> String {
    let mut pattern = String::with_capacity(literal.len() + 8);
    for c in literal.chars() {
        if !c.is_ascii_alphanumeric() && c != '_' && c != '-' {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_and_dead_letters_are_followed() {
        let topics = Topics::new("lerian.streaming.");
        assert_eq!(topics.kind("lerian.streaming.loans"), TopicKind::Events("loans"));
        assert_eq!(topics.kind("lerian.streaming.loans.dlq"), TopicKind::DeadLetters("loans"));
        for other in [
            "lerian.streaming.loans.commands",
            "lerian.streaming.",
            "lerian.streaming",
            "lerian.streamingloans",
            "lerian.streaming..dlq",
            "lerian.streaming.Loans",
            "lerian.streaming.loans.dlq.dlq",
            "other.streaming.loans",
        ] {
            assert_eq!(topics.kind(other), TopicKind::Other, "{other}");
        }
    }

    #[test]
    fn a_source_name_has_its_grammar_and_length() {
        for good in ["a", "0", "loan-service_2", &"a".repeat(223)] {
            assert!(is_source_name(good), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a.b", "a b", "é", &"a".repeat(224)] {
            assert!(!is_source_name(bad), "{bad}");
        }
    }

    #[test]
    fn patterns_take_the_prefix_literally() {
        let topics = Topics::new("a.b+c");
        assert_eq!(topics.events_pattern(), r"^a\.b\+c\.[a-z0-9][a-z0-9_-]*$");
        assert_eq!(topics.dead_letters_pattern(), r"^a\.b\+c\.[a-z0-9][a-z0-9_-]*\.dlq$");
    }
}
