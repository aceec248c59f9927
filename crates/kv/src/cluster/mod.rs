//! A client of a cluster, which knows the node that leads each shard, and has a session with each node that it needs.
//!
//! ```text
//!   calls       get, put, delete, and several of them at once; entries: all keys, shard by shard
//!     batches   keys of one shard, changed together
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
mod batches;
mod calls;
mod entries;
mod error;
mod get;
mod leases;
mod map;
mod nodes;
mod options;
mod routes;

use std::rc::Rc;

use stonecast_cluster::ConfigStore;
use stonecast_fabric::{Boxed, Runtime};

use attempts::GivenUp;
use map::Maps;
use nodes::Nodes;

pub use calls::Found;
pub use entries::ClusterEntries;
pub use error::ClusterError;
pub use get::ClusterGet;
pub use map::Copies;
pub use options::{ClusterOptions, Dial};

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
