//! When memtables are closed and handed to the database's worker: decided here, by a thread of the store's own.
//!
//! Left to itself fjall asks its worker for that with every commit that finds a memtable too large. While the one worker
//! merges, these requests fill its queue; carrying out the first, it then waits for room in that very queue, for ever: no
//! memtable is written any more, and memory grows with all that comes in. Here nothing is asked twice: a memtable is
//! closed only when the one before it has been written, and by a thread that may wait.

use fjall::Keyspace;

use super::tables::Tables;
use crate::store::StoreFault;
use crate::types::limits;

/// Closes full memtables whenever it is told that enough was committed.
pub struct Rotation {
    tables: Tables,
    faults: flume::Sender<StoreFault>,
}

/// Tells the rotation when it is time to look.
pub struct Fill {
    look: flume::Sender<()>,
    bytes: usize,
}

impl Rotation {
    /// Builds one; it does nothing until [`Rotation::run`].
    pub const fn new(tables: Tables, faults: flume::Sender<StoreFault>) -> Self {
        Self { tables, faults }
    }

    /// The thread's loop: ends when the committer has.
    pub fn run(self, looks: &flume::Receiver<()>) {
        while looks.recv().is_ok() {
            if let Err(error) = close_full(&self.tables) {
                // A second fault has nothing to add.
                let _ = self.faults.try_send(StoreFault(error.to_string()));
                return;
            }
        }
    }
}

impl Fill {
    /// The other end of `looks`, which holds one.
    pub const fn new(look: flume::Sender<()>) -> Self {
        Self { look, bytes: 0 }
    }

    /// So many bytes were committed.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= limits::STORE_ROTATION_LOOK_BYTES {
            self.bytes = 0;
            // A look that is due already sees these bytes too.
            let _ = self.look.try_send(());
        }
    }
}

/// Closes each full memtable whose predecessor has been written.
///
/// # Errors
/// Whatever fjall finds wrong.
pub fn close_full(tables: &Tables) -> fjall::Result<()> {
    for table in Tables::ALL {
        let keyspace = tables.of(table);
        if filled_bytes(keyspace) > tables.memtable_bytes(table) && keyspace.sealed_memtable_count() == 0 {
            keyspace.rotate_memtable()?;
        }
    }
    Ok(())
}

fn filled_bytes(keyspace: &Keyspace) -> u64 {
    use fjall::AbstractTree as _;
    keyspace.tree.active_memtable().size()
}
