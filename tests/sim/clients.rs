//! The clients of the hub's API: events over HTTP, and commands. They ask again when they get no answer.

use std::collections::BTreeMap;

use streaming_hub::engine::Command;
use streaming_hub::types::{DestinationId, JobKey, RunId, TenantId, Trigger};

use crate::events::EventPlan;
use crate::happening::Life;

/// A client's number for a command; it stays the same when it is asked again.
pub type CommandNumber = u64;

/// How often a client asks before it gives up.
pub const TRIES: u32 = 4;

/// One HTTP request.
pub struct Request {
    pub events: Vec<EventPlan>,
    pub tries: u32,
    /// Being worked on by this life.
    pub open: Option<Life>,
    /// The hub has said that all of it is stored.
    pub acknowledged: bool,
}

/// One command.
pub struct Asked {
    pub wish: Wish,
    pub tries: u32,
    pub open: Option<Life>,
    pub done: bool,
}

/// What a command asks for.
#[derive(Clone, Debug)]
pub enum Wish {
    Retry { tenant: TenantId, key: JobKey, run: RunId },
    Reset(TenantId, DestinationId),
    Clear(TenantId, DestinationId),
}

impl Wish {
    pub fn tenant(&self) -> &TenantId {
        match self {
            Self::Retry { tenant, .. } | Self::Reset(tenant, _) | Self::Clear(tenant, _) => tenant,
        }
    }

    pub fn command(&self) -> Command {
        match self.clone() {
            Self::Retry { tenant, key, run } => Command::Retry { tenant, key, run, trigger: Trigger::Manual },
            Self::Reset(tenant, destination) => Command::ResetCircuit(tenant, destination),
            Self::Clear(tenant, destination) => Command::ClearFailures(tenant, destination),
        }
    }
}

/// All clients.
#[derive(Default)]
pub struct Clients {
    pub requests: BTreeMap<u64, Request>,
    pub commands: BTreeMap<CommandNumber, Asked>,
}

impl Clients {
    /// Whether everyone has an answer or has given up.
    pub fn are_content(&self) -> bool {
        let waits = |open: Option<Life>, tries: u32, done: bool| !done && (open.is_some() || tries < TRIES);
        !self.requests.values().any(|request| waits(request.open, request.tries, request.acknowledged))
            && !self.commands.values().any(|asked| waits(asked.open, asked.tries, asked.done))
    }
}
