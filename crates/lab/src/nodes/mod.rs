//! The KV store on several nodes in the simulated world, for measurements in virtual time.
//!
//! ```text
//!   cluster.rs    nodes, their configuration store and clients in a world
//!     place.rs    a node beyond the life of its process
//!   load.rs       clients, and the record of their calls
//!   failover.rs   from the death of a primary to the first write of its shards
//!   moving.rs     the pause of keys whose shard moves to another node
//!   recovery.rs   from the start of all nodes after a power cut until all shards are served
//! ```
//!
//! Nodes, clients and rules are those of the product. Time is virtual, so a seed gives the same figures on any machine.

mod cluster;
mod failover;
mod load;
mod moving;
mod place;
mod recovery;

pub use cluster::{ClusterShape, NodeCluster, PoolShape};
pub use failover::{Death, Failover, FailoverLoad, ShardFailover, fail_over};
pub use load::{Call, CallLoad, Calls};
pub use moving::{Move, MoveLoad, move_shard};
pub use place::Place;
pub use recovery::{Recovery, RecoveryLoad, recover};
