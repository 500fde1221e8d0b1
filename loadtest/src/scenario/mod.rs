//! The scenarios: what each plays, and what passes. One file each.

mod backlog;
mod closed;
mod goals;
mod hot_tenant;
mod large;
mod many;
mod noisy;
mod restart;
mod retries;
mod smoke;
mod soak;
mod steady;
mod tls;

use clap::ValueEnum;

use crate::failure::Failure;
use crate::session::Session;

/// What can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Open loops at 250/s and at shares of the maximum: latencies and memory
    Steady,
    /// Closed loops: deliveries/s, and per CPU-second beside the bare loop
    Closed,
    /// A tenth of the destinations never answer, another tenth answer slowly
    Noisy,
    /// Every attempt fails for a while, then all are well again
    Retries,
    /// Ten million events pending behind failing destinations, then drained
    Backlog,
    /// A million events pending, `kill -9`, and how soon it delivers again
    Restart,
    /// One tenant sends half of all
    HotTenant,
    /// Ten thousand tenants, a hundred thousand subscriptions
    Many,
    /// Receivers on TLS 1.3
    Tls,
    /// Payloads of 256 KiB
    Large,
    /// An hour of an even stream; memory must not grow
    Soak,
    /// A minute of all that fit, judged by counts and ratios alone
    Smoke,
}

impl Scenario {
    /// As the command line names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Closed => "closed",
            Self::Noisy => "noisy",
            Self::Retries => "retries",
            Self::Backlog => "backlog",
            Self::Restart => "restart",
            Self::HotTenant => "hot-tenant",
            Self::Many => "many",
            Self::Tls => "tls",
            Self::Large => "large",
            Self::Soak => "soak",
            Self::Smoke => "smoke",
        }
    }

    /// What passes, in words.
    #[must_use]
    pub const fn passes_when(self) -> &'static str {
        match self {
            Self::Steady => steady::PASSES_WHEN,
            Self::Closed => closed::PASSES_WHEN,
            Self::Noisy => noisy::PASSES_WHEN,
            Self::Retries => retries::PASSES_WHEN,
            Self::Backlog => backlog::PASSES_WHEN,
            Self::Restart => restart::PASSES_WHEN,
            Self::HotTenant => hot_tenant::PASSES_WHEN,
            Self::Many => many::PASSES_WHEN,
            Self::Tls => tls::PASSES_WHEN,
            Self::Large => large::PASSES_WHEN,
            Self::Soak => soak::PASSES_WHEN,
            Self::Smoke => smoke::PASSES_WHEN,
        }
    }

    /// Plays it: phases and goals go into the session's report.
    ///
    /// # Errors
    /// What stands in the way; that it does not pass is no error.
    pub async fn play(self, session: &mut Session) -> Result<(), Failure> {
        match self {
            Self::Steady => steady::play(session).await,
            Self::Closed => closed::play(session).await,
            Self::Noisy => noisy::play(session).await,
            Self::Retries => retries::play(session).await,
            Self::Backlog => backlog::play(session).await,
            Self::Restart => restart::play(session).await,
            Self::HotTenant => hot_tenant::play(session).await,
            Self::Many => many::play(session).await,
            Self::Tls => tls::play(session).await,
            Self::Large => large::play(session).await,
            Self::Soak => soak::play(session).await,
            Self::Smoke => smoke::play(session).await,
        }
    }
}
