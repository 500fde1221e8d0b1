//! A running hub on an embedded store, in a directory that goes with it.

use futures_lite::future::block_on;
use streaming_hub::deliver::client::ClientSettings;
use streaming_hub::deliver::dns::Resolver;
use streaming_hub::deliver::guard::Guard;
use streaming_hub::deliver::tls::Tls;
use streaming_hub::engine::AutoDisable;
use streaming_hub::runtime::Clock;
use streaming_hub::shard::boot::BootSettings;
use streaming_hub::shard::{Hub, Shards};
use streaming_hub::source::decode::DecodeRules;
use streaming_hub::store::{Embedded, EmbeddedSettings, Retention};
use streaming_hub::types::{ConfigChange, Destination, Duration, Subscription};
use tempfile::TempDir;

/// A hub of one shard.
pub struct RunningHub {
    pub hub: Hub,
    pub shards: Shards,
    _directory: TempDir,
}

impl RunningHub {
    /// Starts it; one tenant may have up to an eighth of `attempts_max` in flight.
    pub fn start(attempts_max: u32, clock: Clock) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let store = Embedded::open(EmbeddedSettings {
            dir: directory.path().to_owned(),
            shards: 1,
            slots: 64,
            kek: None,
            clock,
            retention: Retention::default(),
        })
        .expect("a new data directory");
        let client = ClientSettings {
            guard: Guard::new(true, Vec::new()),
            tls: Tls::new(None).expect("the built-in authorities"),
            resolver: Resolver::system().expect("the system's resolver"),
            clock,
        };
        let settings = BootSettings {
            shards: 1,
            attempts_max,
            poison_threshold: 5,
            auto_disable: AutoDisable::default(),
            payload_retention: Duration::from_hours(168),
            client,
            clock,
            seed: 1,
            rules: DecodeRules::default(),
        };
        let hub = Hub::start(&settings, store, None, &[]).expect("the hub starts");
        let shards = hub.shards();
        Self { hub, shards, _directory: directory }
    }

    /// Puts a destination and its subscription in force.
    pub fn configure(&self, destination: Destination, subscription: Subscription) {
        block_on(self.shards.configure(ConfigChange::PutDestination(Box::new(destination))));
        block_on(self.shards.configure(ConfigChange::PutSubscription(Box::new(subscription))));
    }
}
