//! A client of a cluster: it knows which node leads each shard, and has a session with each node that it needs.
//!
//! ```text
//!   calls       get, put, delete, and batches of them; entries: all keys, shard by shard
//!     attempts  once at the node of the key's shard; again, with the map of the next configuration
//!     map       shard -> node, term: one value of the configuration store
//!     nodes     node -> session, opened at first use
//!       routes  shard -> the session of its last call, for a GET that ends in the call
//!       leases  the time for which the memory of a node may be believed
//! ```
//!
//! A GET is the GET of a session with one node, with the same READs. The client asks the map before the GET, unless it
//! knows a session for the shard, and the lease after it. A client of a server without a cluster executes no code of
//! this module.
//!
//! No message tells a client that the map has changed: a node refuses a request, or is gone. The
//! client then reads the configuration again.
//! A write is tried again with the token of its first attempt, so it takes effect once.

mod attempts;
mod calls;
mod entries;
mod error;
mod get;
mod leases;
mod map;
mod nodes;
mod routes;

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::ConfigStore;
use stonecast_fabric::{Boxed, Port, Runtime};

use crate::client::ClientOptions;
use crate::error::StoreError;

use attempts::GivenUp;
use map::Maps;
use nodes::Nodes;

pub use calls::Found;
pub use entries::ClusterEntries;
pub use error::ClusterError;
pub use get::ClusterGet;
pub use map::Copies;

/// The pause before a client looks for a newer configuration than the one that it has.
const PAUSE_NS: Nanoseconds = 2_000_000;

/// The port through which a node is reached, by the node's address.
pub type Dial = Rc<dyn Fn(&str) -> Result<Rc<Port>, StoreError>>;

/// Options of a client of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOptions {
    /// Options of the session with each node. Clients of a cluster publish nothing themselves.
    pub session: ClientOptions,
    /// The time within which a call ends, whatever happens to the nodes.
    pub patience_ns: Nanoseconds,
    /// The time within which a connect ends, and a failover has to be over. At most the patience counts.
    pub connect_ns: Nanoseconds,
    /// The longest time for which an attempt waits for its node, before the client checks whether another node leads
    /// the shard. At most a quarter of the patience counts, and at most two leases of a primary; a node has the whole
    /// of it to accept a connection.
    pub attempt_ns: Nanoseconds,
}

impl ClusterOptions {
    fn connect_ns(&self) -> Nanoseconds {
        self.connect_ns.min(self.patience_ns)
    }

    fn attempt_ns(&self) -> Nanoseconds {
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

/// A client of a cluster. Its calls find the node that leads the shard of a key, and try again when
/// that node changes.
pub struct ClusterClient {
    runtime: Rc<dyn Runtime>,
    options: ClusterOptions,
    maps: Maps,
    nodes: Nodes,
}

impl ClusterClient {
    /// Reads the configuration in `store`, and opens a session with the first primary that answers. If none does, the
    /// client reads the configuration again, because an heir may lead soon. Ends within
    /// [`ClusterOptions::connect_ns`](field@ClusterOptions::connect_ns).
    pub fn connect(
        store: Rc<dyn ConfigStore>,
        dial: Dial,
        runtime: Rc<dyn Runtime>,
        options: ClusterOptions,
    ) -> Boxed<'static, Result<Self, ClusterError>> {
        Box::pin(async move {
            let mut options = options;
            options.session.publishes = false;
            let limit = options.connect_ns();
            let deadline = runtime.now().saturating_add(limit);
            let store_name = store.name().to_owned();
            let reading = Maps::read(store, runtime.clone());
            let read = runtime.within(limit, reading).await;
            let maps = read.unwrap_or(Err(ClusterError::Unanswered { store: store_name }))?;
            let nodes = Nodes::new(dial, runtime.clone(), options);
            let client = Self {
                runtime,
                options,
                maps,
                nodes,
            };
            let opened = client.open_first(deadline).await;
            opened.map_err(|GivenUp { shard, error, .. }| {
                let source = Box::new(error);
                ClusterError::NotServed { shard, source }
            })?;
            Ok(client)
        })
    }
}
