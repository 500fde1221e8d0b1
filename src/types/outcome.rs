//! What came back from an attempt, as facts; what it means is decided in the engine.

use bytes::Bytes;

use super::time::{Duration, Time};

/// Why an attempt got no complete response head, or why there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The name did not resolve.
    Dns,
    /// The outbound guard refused the address.
    Blocked,
    /// No TCP connection.
    Connect,
    /// The TLS handshake failed in some other way.
    Tls,
    /// The certificate has expired or is not valid yet.
    TlsExpired,
    /// The certificate's issuer is not trusted: self-signed or an incomplete chain.
    TlsUntrusted,
    /// The certificate is for another name.
    TlsWrongHost,
    /// The peer and the hub share no protocol version or cipher suite.
    TlsHandshake,
    /// The peer asked for a client certificate.
    TlsClientCertificate,
    /// The attempt's deadline passed.
    Timeout,
    /// The connection broke after a byte of the request was written.
    Reset,
    /// The response is malformed, or its head over the bound.
    Protocol,
    /// A status that is no success.
    Status,
    /// The hub's own fault: nothing reached the destination.
    Internal,
    /// Cut by the end of a shutdown's grace, or by a crash.
    Interrupted,
}

impl ErrorKind {
    /// The name in the API and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Blocked => "blocked",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::TlsExpired => "tls_expired",
            Self::TlsUntrusted => "tls_untrusted",
            Self::TlsWrongHost => "tls_wrong_host",
            Self::TlsHandshake => "tls_handshake",
            Self::TlsClientCertificate => "tls_client_certificate",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Protocol => "protocol",
            Self::Status => "status",
            Self::Internal => "internal",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The facts of one finished attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// When it ended.
    pub ended_at: Time,
    /// The status of a complete response head.
    pub status: Option<u16>,
    /// Set unless the status is 2xx.
    pub error_kind: Option<ErrorKind>,
    /// One line for a person, at most 512 bytes.
    pub error: Option<Box<str>>,
    /// `Retry-After` of a 429 or 503, already parsed; garbage is absent.
    pub retry_after: Option<Duration>,
    /// At most 8 KiB of response headers.
    pub response_headers: Vec<(Box<str>, Bytes)>,
    /// At most 16 KiB of response body.
    pub response_body: Bytes,
    /// The response was longer than what is kept, or its body never ended.
    pub truncated: bool,
    /// It broke on a pooled connection after a byte was written: once per step it is tried again at once,
    /// which uses no step and does not count for the circuit.
    pub stale_connection: bool,
}

/// What an outcome means for the job, its step, and its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// 2xx.
    Delivered,
    /// 410 where the destination says `disable`.
    Gone,
    /// A failure that uses a step and counts for circuit and failure span.
    Failed,
    /// 429: uses a step, counts for neither.
    Throttled,
    /// The hub's own fault: uses nothing, counts for nothing.
    HubFault,
    /// Cut by a shutdown: uses nothing, counts for nothing.
    Interrupted,
    /// Broken on a stale pooled connection: tried again at once, uses nothing, counts for nothing.
    Stale,
}
