//! How the configuration names the Kafka cluster, in the words of the client: for `serve` and `check`.

use crate::config::{CaCertificate, KafkaAssignment, KafkaConfig, ScramMechanism};
use crate::source::kafka::{self, Assignment, Authority, KafkaSettings, MemberList, Membership, Scram, Tls};
use crate::source::topic::Followed;

/// Bytes that the client fetches ahead, of all partitions together.
const PREFETCH_BYTES: usize = 64 * 1024 * 1024;
/// By how many partitions that is divided.
const EXPECTED_PARTITIONS: usize = 64;

/// The client's settings for a group, given as its setting's key and value, of the hub `hub_id`.
pub fn settings_of(
    kafka: &KafkaConfig,
    group: (&'static str, &str),
    followed: Followed,
    (hub_id, membership): (String, Membership),
) -> KafkaSettings {
    KafkaSettings {
        brokers: kafka.brokers.join(","),
        group: group.1.to_owned(),
        group_setting: group.0,
        followed,
        hub_id,
        membership,
        take_over: kafka.take_over.clone(),
        member_list: MemberList::Told,
        assignment: match kafka.assignment {
            KafkaAssignment::Range => Assignment::Range,
            KafkaAssignment::CooperativeSticky => Assignment::CooperativeSticky,
        },
        tls: kafka.tls.then(|| Tls { authority: kafka.ca_cert.as_ref().map(authority) }),
        scram: kafka.scram.as_ref().map(|scram| Scram {
            mechanism: match scram.mechanism {
                ScramMechanism::Sha256 => kafka::ScramMechanism::Sha256,
                ScramMechanism::Sha512 => kafka::ScramMechanism::Sha512,
            },
            username: scram.username.clone(),
            password: scram.password.clone(),
        }),
        prefetch_bytes: PREFETCH_BYTES,
        expected_partitions: EXPECTED_PARTITIONS,
        session_timeout: kafka.session_timeout,
    }
}

fn authority(certificate: &CaCertificate) -> Authority {
    match certificate {
        CaCertificate::File(path) => Authority::File(path.to_string_lossy().into_owned()),
        CaCertificate::Pem(pem) => Authority::Pem(pem.clone()),
    }
}
