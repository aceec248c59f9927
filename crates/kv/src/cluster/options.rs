//! Options of a client of a cluster.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Port;

use crate::client::ClientOptions;
use crate::error::StoreError;

/// The pause before a client looks for a newer configuration than the one that it has.
pub(super) const PAUSE_NS: Nanoseconds = 2_000_000;

/// The port through which a node is reached, by the node's address.
pub type Dial = Rc<dyn Fn(&str) -> Result<Rc<Port>, StoreError>>;

/// Options of a client of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOptions {
    /// Options of the session with each node. Clients of a cluster publish nothing themselves.
    pub session: ClientOptions,
    /// The time within which a call ends, even if all nodes are down.
    pub patience_ns: Nanoseconds,
    /// The time within which a connect ends, and a failover has to be over. At most the patience counts.
    pub connect_ns: Nanoseconds,
    /// The longest time for which an attempt waits for its node, before the client checks whether another node leads
    /// the shard. At most a quarter of the patience counts, and at most two leases of a primary; a node has the whole
    /// of it to accept a connection.
    pub attempt_ns: Nanoseconds,
}

impl ClusterOptions {
    pub(super) fn connect_ns(&self) -> Nanoseconds {
        self.connect_ns.min(self.patience_ns)
    }

    pub(super) fn attempt_ns(&self) -> Nanoseconds {
        self.attempt_ns.min(self.patience_ns / 4)
    }
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            session: ClientOptions::default(),
            patience_ns: 20_000_000_000,
            connect_ns: 10_000_000_000,
            attempt_ns: 3_000_000_000,
        }
    }
}
