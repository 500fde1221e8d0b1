//! The handle on the consumer's thread, and what that is tied to.

use rdkafka::error::KafkaError;

use super::ownership::{GroupTaken, Identity};
use super::pump::{Handles, Pump};
use super::{KafkaAlarm, KafkaEvent, KafkaSettings, LaneBoard, client};
use crate::types::{Duration, LaneName, Time};

/// Asks the store for a lane's position; may block. `None`: it has none.
pub type StoredPosition = Box<dyn Fn(&LaneName) -> Result<Option<u64>, StoredUnavailable> + Send>;

/// The store could not answer; it is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store does not answer")]
pub struct StoredUnavailable;

/// What the consumer is tied to.
pub struct Links {
    /// One channel per shard: partition p's events go to shard p mod N. Bounded; the consumer waits when one is full.
    pub shards: Vec<flume::Sender<KafkaEvent>>,
    /// Alarms; when it is full they are only logged.
    pub alarms: flume::Sender<KafkaAlarm>,
    /// The store's positions; absent where the group alone keeps them.
    pub stored: Option<StoredPosition>,
    /// The time, never going backwards.
    pub clock: fn() -> Time,
}

/// The handle on a consumer's thread.
#[derive(Debug)]
pub struct KafkaConsumer {
    stop: flume::Sender<()>,
    finished: flume::Receiver<()>,
    taken: flume::Receiver<GroupTaken>,
    board: LaneBoard,
}

impl KafkaConsumer {
    /// Starts the consumer of the topics that its settings name.
    ///
    /// # Errors
    /// When the client refuses its configuration, or there is no thread. Brokers that are down are no error.
    ///
    /// # Panics
    /// When there is no shard.
    pub fn start(settings: KafkaSettings, links: Links) -> Result<Self, StartError> {
        assert!(!links.shards.is_empty(), "a process has shards");
        let pattern = settings.followed.pattern();
        let takes_over = settings.take_over.clone();
        let identity = Identity {
            hub: settings.hub_id.clone(),
            began: (links.clock)(),
            takes_over,
            membership: settings.membership,
        };
        let client = client::open(&settings, &pattern, &identity.client_id())?;
        let (stop, stopped) = flume::bounded(1);
        let (done, finished) = flume::bounded(1);
        let (tell, taken) = flume::bounded(1);
        let board = LaneBoard::default();
        let handles = Handles { client, stopped, taken: tell, board: board.clone() };
        let pump = Pump::new(settings, identity, links, pattern, handles);
        let run = move || {
            pump.run();
            let _nobody_may_wait = done.send(());
        };
        std::thread::Builder::new().name("kafka".to_owned()).spawn(run).map_err(StartError::Thread)?;
        Ok(Self { stop, finished, taken, board })
    }

    /// Whether the group is this hub's; asked about once a second.
    ///
    /// # Errors
    /// [`GroupTaken`] once when it is another's: the consumer has ended, and so must the hub.
    pub fn check(&self) -> Result<(), GroupTaken> {
        self.taken.try_recv().map_or(Ok(()), Err)
    }

    /// What is known of the lanes.
    #[must_use]
    pub fn board(&self) -> LaneBoard {
        self.board.clone()
    }

    /// Begins to revoke all lanes, commit and leave the group. The shards must go on answering.
    #[must_use]
    pub fn begin_close(self) -> Closing {
        let _already_stopping = self.stop.try_send(());
        Closing { finished: self.finished }
    }
}

/// A consumer on its way out.
#[derive(Debug)]
pub struct Closing {
    finished: flume::Receiver<()>,
}

impl Closing {
    /// Whether the consumer has ended within `limit`. It ends either way, at the latest with the process.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        self.finished.recv_timeout(limit.to_std()).is_ok()
    }
}

/// Why a consumer could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The client refuses its configuration.
    #[error("kafka: {0}")]
    Client(#[from] KafkaError),
    /// There is no thread for it.
    #[error("kafka: no thread: {0}")]
    Thread(std::io::Error),
}
