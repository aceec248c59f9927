//! This server as a node of a cluster: the store behind the rules of copies.
//!
//! ```text
//!   pipeline   decide -> stamp -> send ─┬─ own persist ─┬─ in flight: the next batch goes on -> answer
//!                                       └─ appends ─────┘         ^ settled: publish, in the step in which the node settles
//!
//!   node       entries that are on all copies -> digest -> commit: durable ── the server's task: in the index, piece by piece
//!              history -> keep -> commit                   pages of a join -> absorb -> commit
//!              serves -> commit, ledger -> the shard opens to clients          resigned -> it is closed, at once
//! ```
//!
//! | file | holds |
//! | --- | --- |
//! | `store.rs` | [`NodeStore`]: the calls that a node makes |
//! | `calls.rs` | the calls of batches that wait for copies |
//! | `elsewhere.rs` | records of other nodes on their way into log and index |
//! | `pages.rs` | pages of what is published, for the store of a joiner |
//! | `leading.rs` | the part of a batch that a node has a say in |
//! | `start.rs` | a pool's content as a node finds it, and the node's start |
//!
//! The node calls the store while no component is borrowed, and the pipeline calls the node in the same way, so neither
//! waits for the other.
//!
//! Invariants:
//! - A word names a record that is durable here. A word of an own record is stored when the record is on all copies.
//! - A shard opens to clients when the ledger that has its term is durable, and everything that was digested is in the
//!   index.
//! - A batch, a commit of the node and a step of the cleaner persist in turns.
//!
//! A crash leaves the log and the newest ledger: records of other nodes that were durable, own records, and the
//! histories that say which of them count.

mod calls;
mod counts;
mod elsewhere;
mod leading;
mod pages;
mod start;
mod store;

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_fabric::Bell;
use stonecast_lineage::{Epoch, Term};
use stonecast_node::Node;

pub(super) use calls::Calls;
pub(super) use counts::counts_of;
pub(super) use elsewhere::{durable_count, publish_some};
pub(super) use leading::{Hindrance, Leading};
pub use start::NodeOptions;
pub(super) use start::{begin, left_by};
pub(super) use store::NodeStore;

use elsewhere::Elsewhere;

/// The node of a server.
pub(super) type ServerNode = Node<NodeStore>;

/// The state that a server has beside its other components because it is a node.
#[derive(Default)]
pub(super) struct NodeState {
    pub calls: Calls,
    pub elsewhere: Elsewhere,
    /// The shards that the node serves, and their terms. A shard that is not open yet is also in `opening`.
    serving: BTreeMap<u32, Term>,
    /// Shards that are to open to clients: number, term, last version of the history.
    opening: Vec<(u32, Term, u64)>,
    /// The highest epoch that this node has led in.
    epoch: Epoch,
    /// The reason why the store cannot keep what it was told.
    broken: Option<String>,
    /// Calls the server's task: a shard is to open, or words of digested records are to be stored.
    pub bell: Rc<Bell>,
}
