//! Brokers that turn this hub away: which settings an operator has to look at, and how often that is said.

use rdkafka::error::RDKafkaErrorCode;

use crate::types::{Time, limits};

const SCRAM: &str = "kafka.scram_username, kafka.scram_password, kafka.scram_mechanism";

/// Errors that last until an operator changes a setting, or the brokers.
const SETTINGS: &[(RDKafkaErrorCode, &str)] = &[
    (RDKafkaErrorCode::Authentication, SCRAM),
    (RDKafkaErrorCode::SaslAuthenticationFailed, SCRAM),
    (RDKafkaErrorCode::UnsupportedSASLMechanism, SCRAM),
    (RDKafkaErrorCode::SSL, "kafka.ca_cert, kafka.tls_enabled"),
    (RDKafkaErrorCode::TopicAuthorizationFailed, "kafka.scram_username, kafka.topic_prefix"),
    (RDKafkaErrorCode::GroupAuthorizationFailed, "kafka.scram_username, kafka.group, kafka.dlq_group"),
];

/// What was said last, so that a client that tries every few seconds does not fill the log.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    last: Option<(&'static str, Time)>,
}

impl Refusals {
    /// The settings to name now for this error; absent when it is no refusal, or was named a moment ago.
    pub(super) fn due_for(&mut self, code: RDKafkaErrorCode, now: Time) -> Option<&'static str> {
        let settings = settings_of(code)?;
        let recently = |(told, at): (&str, Time)| told == settings && now.since(at) < limits::KAFKA_REFUSAL_REPEAT;
        if self.last.is_some_and(recently) {
            return None;
        }
        self.last = Some((settings, now));
        Some(settings)
    }
}

/// Whether the brokers turn this hub away with this error.
pub(super) fn is_refusal(code: RDKafkaErrorCode) -> bool {
    settings_of(code).is_some()
}

/// The settings that decide whether this error comes.
pub(super) fn settings_of(code: RDKafkaErrorCode) -> Option<&'static str> {
    SETTINGS.iter().find(|(known, _)| *known == code).map(|(_, settings)| *settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_settings_once_a_minute() {
        let (mut refusals, begin) = (Refusals::default(), Time::from_millis(1_000));
        let password = refusals.due_for(RDKafkaErrorCode::Authentication, begin);
        assert!(password.is_some_and(|settings| settings.contains("kafka.scram_password")));
        assert_eq!(refusals.due_for(RDKafkaErrorCode::Authentication, begin), None);
        assert!(refusals.due_for(RDKafkaErrorCode::SSL, begin).is_some_and(|text| text.contains("kafka.ca_cert")));
        let later = begin + limits::KAFKA_REFUSAL_REPEAT;
        assert!(refusals.due_for(RDKafkaErrorCode::SSL, later).is_some());
        assert_eq!(refusals.due_for(RDKafkaErrorCode::BrokerTransportFailure, later), None);
    }
}
