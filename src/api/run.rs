//! Running the API: from its first request to its last, as the process' phases go by.

use std::rc::Rc;
use std::time::Duration;

use crate::runtime::{Listener, channel, sleep, task};
use crate::shard;

use super::disabled;
use super::follow::follow;
use super::server::Server;
use super::service::{Phase, Service};

/// How often a starting API looks whether all slots have been loaded.
const READY_LOOK: Duration = Duration::from_millis(10);

/// Serves on `listener` until `phases` closes; then ends once every request begun is answered, or a few seconds later.
///
/// Ready when every slot takes events. `phases` tells the way down: [`Phase::NotReady`], [`Phase::Draining`], and
/// its closing stops the server. Call it on the executor.
pub async fn run(api: Rc<Service>, shards: shard::Shards, listener: Listener, phases: channel::Receiver<Phase>) {
    let (stop, stopped) = channel::bounded::<()>(1);
    task::spawn(disabled::follow(Rc::clone(&api), shards));
    task::spawn(follow(Rc::clone(&api)));
    task::spawn(become_ready(Rc::clone(&api)));
    let following = Rc::clone(&api);
    task::spawn(async move {
        while let Ok(phase) = phases.recv_async().await {
            following.enter(phase);
        }
        drop(stop);
    });
    Server::new(api, stopped).serve(listener).await;
}

/// Ends as soon as the slots are loaded, or the way down has begun.
async fn become_ready(api: Rc<Service>) {
    while api.phase() == Phase::Starting {
        let reports = api.shards.report().await;
        let loaded = reports.iter().all(|shard| shard.slots.iter().all(|slot| slot.active));
        if loaded && !reports.is_empty() && api.phase() == Phase::Starting {
            api.enter(Phase::Serving);
            tracing::info!("ready");
            return;
        }
        sleep(READY_LOOK).await;
    }
}
