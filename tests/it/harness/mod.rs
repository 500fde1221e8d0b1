//! What the tests stand on: the hub's process, an API client, receivers of every temper, and waiting.
//!
//! Nothing here decides what is right. Waiting is always for a condition, with a deadline that only a fault
//! reaches.

mod api;
mod cloud_event;
mod gate;
mod hub;
pub mod process;
mod receiver;
mod reply;
pub mod signature;
mod tenant;
pub mod time;
mod tls;
pub mod wire;

pub use api::Api;
pub use cloud_event::CloudEvent;
pub use gate::Gate;
pub use hub::{Hub, Setup};
pub use process::run;
pub use receiver::{Received, Receiver};
pub use reply::Reply;
pub use signature::signature_count;
pub use tenant::{Source, Tenant, merged};
pub use time::{eventually, eventually_some, uuid_v7};
pub use tls::{Authority, Certificate};
