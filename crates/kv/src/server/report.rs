//! The server's report of itself.

use std::cell::OnceCell;
use std::rc::Rc;

use stonecast_media::{Durability, PersistCounts, PersistentRegion, Pool};

use super::commit::Committer;
use super::state::State;
use crate::cleaning::Cleaning;
use crate::copies::CopyOfShard;
use crate::copying::Copying;
use crate::metrics::Metrics;
use crate::stat::Stat;
use crate::wire::CopiesPage;

/// Makes the server's report of itself.
pub(super) struct Reporter {
    log: Rc<dyn PersistentRegion>,
    capacity: u64,
    segment_size: u64,
    opening: u32,
    survives_power: bool,
    /// Process number of the server; 0 if it has none.
    process: u32,
    committer: Rc<Committer>,
    /// The node that the server is.
    node: OnceCell<AskedNode>,
}

/// The questions to the node.
struct AskedNode {
    counts: Box<dyn Fn() -> Copying>,
    copies: Box<dyn Fn() -> Vec<CopyOfShard>>,
}

impl Reporter {
    pub fn new(pool: &Pool, process: u32, committer: Rc<Committer>) -> Self {
        Self {
            log: pool.log(),
            capacity: pool.capacity(),
            segment_size: pool.segment_size(),
            opening: pool.opening(),
            survives_power: pool.durability() == Durability::Power,
            process,
            committer,
            node: OnceCell::new(),
        }
    }

    /// Asks the node for its counts and its copies from now on.
    pub fn ask_node(
        &self,
        counts: impl Fn() -> Copying + 'static,
        copies: impl Fn() -> Vec<CopyOfShard> + 'static,
    ) {
        let first = self.node.set(AskedNode {
            counts: Box::new(counts),
            copies: Box::new(copies),
        });
        assert!(first.is_ok(), "a server joins once");
    }

    /// The copies of the shards whose primary the server is, the first `from` left out, as far as one answer takes
    /// them. A server without a cluster has none.
    pub fn copies(&self, from: u32) -> CopiesPage {
        let copies = self.node.get().map(|node| (node.copies)());
        CopiesPage::of(&copies.unwrap_or_default(), from)
    }

    /// A report of the server.
    pub fn stat(&self, state: &State) -> Stat {
        let State {
            shards,
            journal,
            clients,
            keeper,
            expiries,
            ..
        } = state;
        let [
            segments_free,
            segments_partial,
            segments_taken,
            segments_full,
        ] = journal.space.counts();
        let paths = clients.served.paths(&clients.sessions);
        let ledgers = keeper.as_ref().map_or(0, |keeper| keeper.ledger().writes());
        Stat {
            keys: shards.keys_led(),
            index_capacity: shards.capacity(),
            live_bytes: shards.live_bytes(),
            used_bytes: journal.space.used_bytes(),
            capacity_bytes: self.capacity,
            segments_free,
            segments_partial,
            segments_taken,
            segments_full,
            clients: clients.sessions.len() as u64,
            opening: self.opening.into(),
            sequence: journal.sequences.next() - 1,
            puts: paths.iter().map(|path| path.puts).sum(),
            deletes: paths.iter().map(|path| path.deletes).sum(),
            refused: paths.iter().map(|path| path.refused).sum(),
            batches: clients.served.batches,
            persists: self.committer.persists() + ledgers,
            segment_size: self.segment_size,
            power: self.survives_power,
            process: self.process.into(),
            index_bytes: shards.index_bytes(),
            index_growths: shards.growths(),
            space_failures: journal.failures(),
            expired: expiries.removed(),
        }
    }

    /// Everything that the server counts.
    pub fn metrics(&self, state: &State) -> Metrics {
        let clients = &state.clients;
        let [one_sided, gateway] = clients.served.paths(&clients.sessions);
        let PersistCounts {
            write_backs,
            fences,
            syncs,
        } = self.log.persist_counts();
        Metrics {
            stat: self.stat(state),
            one_sided,
            gateway,
            leases: clients.sessions.leased().count() as u64,
            write_backs,
            fences,
            syncs,
            cleaning: self.cleaning(state),
            copying: Copying {
                digested_bytes: state
                    .node
                    .as_ref()
                    .map_or(0, |node| node.elsewhere.digested_bytes()),
                ..self
                    .node
                    .get()
                    .map(|node| (node.counts)())
                    .unwrap_or_default()
            },
        }
    }

    /// The work of the cleaner.
    pub fn cleaning(&self, state: &State) -> Cleaning {
        Cleaning {
            tombstone_bytes: state.journal.space.tombstone_bytes(),
            ..state.cleaner.counters()
        }
    }
}
