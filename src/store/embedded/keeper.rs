//! The keeper: one thread that each second looks at the disk and at the database's health, and lets
//! retention take a step.

use std::sync::Arc;

use fjall::PersistMode;

use super::committer::Submission;
use super::space::Space;
use super::sweep::Sweep;
use super::tables::Tables;
use crate::runtime::Clock;
use crate::store::Retention;
use crate::store::StoreFault;

const TICK: std::time::Duration = std::time::Duration::from_secs(1);

/// What the keeper must know.
#[derive(Clone, Copy, Debug)]
pub struct KeeperSettings {
    /// The number of slots.
    pub slots: u16,
    /// The wall clock.
    pub clock: Clock,
    /// How long things are kept.
    pub retention: Retention,
}

/// Runs until told to stop.
pub struct Keeper {
    tables: Tables,
    clock: Clock,
    sweep: Sweep,
    space: Arc<Space>,
    faults: flume::Sender<StoreFault>,
}

impl Keeper {
    /// Builds one; it does nothing until [`Keeper::run`].
    pub fn new(
        tables: Tables,
        settings: KeeperSettings,
        submissions: flume::WeakSender<Submission>,
        space: Arc<Space>,
        faults: flume::Sender<StoreFault>,
    ) -> Self {
        let sweep = Sweep::new(tables.clone(), submissions, settings.slots, settings.retention);
        Self { tables, clock: settings.clock, sweep, space, faults }
    }

    /// The thread's loop: ends when `stop`'s sender is gone.
    pub fn run(mut self, stop: &flume::Receiver<()>) {
        while stop.recv_timeout(TICK) == Err(flume::RecvTimeoutError::Timeout) {
            self.space.check();
            // The database's own threads can fail between two commits, and would then hold up the next.
            if let Err(error) = self.tables.database.persist(PersistMode::Buffer) {
                // A second fault has nothing to add.
                let _ = self.faults.try_send(StoreFault(error.to_string()));
                return;
            }
            if let Err(error) = self.sweep.step(self.clock.now()) {
                tracing::error!(%error, "retention failed; it goes on in the next second");
            }
        }
    }
}
