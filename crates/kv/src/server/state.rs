//! The components of a server, in one value that a rule over several of them takes.

use stonecast_log::Expiry;
use stonecast_media::RecordFeatures;

use super::clean::Cleaner;
use super::clients::Clients;
use super::expiries::Expiries;
use super::journal::Journal;
use super::keeper::Keeper;
use super::node::state::NodeState;
use super::shards::Shards;
use super::time::ServerTime;

/// The state that changes during service, by owner.
pub(super) struct State {
    pub shards: Shards,
    pub journal: Journal,
    pub clients: Clients,
    pub time: ServerTime,
    pub expiries: Expiries,
    /// The features that the records of the pool need, in the header of the pool.
    pub record_features: RecordFeatures,
    pub cleaner: Cleaner,
    /// `None`: the pool belongs to no cluster.
    pub keeper: Option<Keeper>,
    /// `None`: the server is alone.
    pub node: Option<NodeState>,
}

impl State {
    /// The state of the node that this server is.
    pub fn node_mut(&mut self) -> &mut NodeState {
        self.node.as_mut().expect("this server is a node")
    }

    /// The shards with keys that have expired, are still in the index, and can be removed.
    pub fn shards_with_expired_keys(&self) -> impl Iterator<Item = u32> {
        let first = self.expiries.first_moments();
        let are_due = |&(shard, moment): &(u32, Expiry)| {
            moment.has_come(self.time.running_ms(shard)) && !self.time.awaits_copies(shard)
        };
        first.filter(are_due).map(|(shard, _)| shard)
    }

    /// The keeper of the node that this server is.
    pub fn keeper_of_node(&self) -> &Keeper {
        self.keeper.as_ref().expect("a node keeps a ledger")
    }

    /// Notes that an appender was given a segment: cleaning gains something, and no writer waits for leased room.
    pub fn note_given(&mut self) {
        self.cleaner.note_given();
        self.clients.lender.note_given();
    }
}
