//! The state of a node, beside that of a server alone.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_fabric::Bell;
use stonecast_lineage::{Epoch, Term};

use super::calls::Calls;
use super::elsewhere::Elsewhere;

/// The state that only a server of a cluster has.
#[derive(Default)]
pub(in crate::server) struct NodeState {
    pub calls: Calls,
    pub elsewhere: Elsewhere,
    /// The shards that the node serves, and their terms. A shard that is not open yet is also in `opening`.
    pub(super) serving: BTreeMap<u32, Term>,
    /// Shards that are to open to clients: number, term, last version of the history.
    pub(super) opening: Vec<(u32, Term, u64)>,
    /// The highest epoch that this node has led in.
    pub(super) epoch: Epoch,
    /// The reason why the store cannot keep a record or a mark that came from elsewhere.
    pub(super) broken: Option<String>,
    /// Calls the server's task: a shard is to open, or words of digested records are to be stored.
    pub bell: Rc<Bell>,
}
