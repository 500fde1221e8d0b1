//! Delivering: one signed HTTP request per attempt, and the facts of what came back.
//!
//! Nothing is decided here: what to send and when comes from the engine, and what an outcome means is judged
//! there. Pure parts ([`guard`], [`sign`], [`headers`], [`classify`]) stand beside those that touch the network.
//!
//! Invariants:
//! - every outbound call goes through [`guard::Guard`], before it is resolved and again with each address;
//! - a connection and a TLS session belong to one (tenant, destination, version) and serve no other;
//! - one deadline covers all of an attempt, and what is kept of a response is bounded.

pub mod classify;
#[cfg(feature = "serve")]
pub mod client;
#[cfg(feature = "serve")]
pub mod connection;
#[cfg(feature = "serve")]
pub mod dial;
#[cfg(feature = "serve")]
pub mod dns;
pub mod guard;
pub mod headers;
#[cfg(feature = "serve")]
pub mod http2;
#[cfg(feature = "serve")]
pub mod pool;
#[cfg(feature = "serve")]
pub mod prepared;
pub mod sign;
#[cfg(feature = "serve")]
pub mod tls;
pub mod verify;

#[cfg(feature = "serve")]
#[cfg(test)]
mod http2_tests;
#[cfg(feature = "serve")]
#[cfg(test)]
mod receiver;
#[cfg(test)]
mod sample;
#[cfg(feature = "serve")]
#[cfg(test)]
mod tests;
#[cfg(feature = "serve")]
#[cfg(test)]
mod tls_tests;

#[cfg(feature = "serve")]
pub use client::{Client, ClientSettings, Outbound, Probe};
pub use guard::{Guard, GuardError};
