//! The state of a node, borrowed for one step at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use stonecast_cluster::{Configuration, Group, HashRange, NodeName, Subject};
use stonecast_media::Durability;
use stonecast_replication::{Lineage, Step};

use crate::fences::Fences;
use crate::lost::Lost;
use crate::own_commits::OwnCommits;
use crate::peer::Peer;
use crate::placed::Placed;
use crate::shard::{Role, Shard};

/// The state of a node.
pub struct State<C> {
    pub me: NodeName,
    pub configuration: Rc<Configuration>,
    /// The places of shards in `configuration`.
    pub placed: Placed,
    pub shards: BTreeMap<u32, Shard<C>>,
    pub peers: BTreeMap<NodeName, Peer>,
    pub fences: Fences,
    /// Histories to make durable in this turn.
    pub keepings: Vec<Keeping>,
    pub due: Due,
    pub waiting: Waiting,
    /// Copies that have lost entries.
    pub lost: Lost,
    /// Commits of the own log that go on.
    pub own_commits: OwnCommits,
    /// Whether a task changes the configuration.
    pub is_changing: bool,
}

/// The shards at which a short turn looks.
#[derive(Default)]
pub struct Due {
    /// Led shards with writes that were stamped and not handed to links.
    pub stamped: BTreeSet<u32>,
    /// Shards for which entries were found since they were last digested.
    pub found: BTreeSet<u32>,
}

/// The room that entries take while copies lack them.
#[derive(Default)]
pub struct Waiting {
    /// Bytes of the entries that were stamped and are not on all copies.
    pub unsettled: u64,
    /// Bytes for which there was no room when a write was refused last.
    pub refused: u64,
}

/// A history to make durable, after everything that was found and digested.
pub struct Keeping {
    pub shard: u32,
    pub history: Lineage,
    pub why: Why,
}

/// The reason why a history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// This node has decided the history, as an heir.
    Heir,
    /// This node follows the history.
    Follows,
    /// Everything below its floor was digested.
    Floor,
    /// A join begins with this history: the earlier copy is dropped.
    Joins,
    /// Everything that was published was pulled.
    Pulled,
}

/// The number of the shard `subject`; `None`: `subject` is no range of keys.
pub fn number_of(configuration: &Configuration, subject: &Subject) -> Option<u32> {
    match subject {
        Subject::Keys(range) => {
            let count = configuration.policy.shards;
            Some(HashRange::even_index(range.first, count))
        }
        Subject::BackEnd(_) => None,
    }
}

/// The group of a shard in `configuration`.
pub fn group_in(configuration: &Configuration, number: u32) -> Option<&Group> {
    let is_it = |group: &&Group| number_of(configuration, &group.subject) == Some(number);
    configuration.groups.iter().find(is_it)
}

impl<C> State<C> {
    /// The other nodes of the cluster.
    pub fn others(&self) -> BTreeSet<NodeName> {
        let names = self.configuration.nodes.keys();
        names.filter(|&name| *name != self.me).cloned().collect()
    }

    /// The failure that the pool of a node promises to survive.
    pub fn promise(&self, node: &NodeName) -> Option<Durability> {
        self.configuration.nodes.get(node)?.survives.parse().ok()
    }

    /// The addresses of a node.
    pub fn addresses(&self, node: &NodeName) -> Vec<String> {
        let node = self.configuration.nodes.get(node);
        node.map_or_else(Vec::new, |node| node.addresses.clone())
    }

    /// The copies to which this node sends the entries of a shard.
    pub fn targets(&self, shard: &Shard<C>) -> Rc<[NodeName]> {
        match &shard.role {
            Role::Leads(_) => self.placed.others(shard.number),
            Role::TakesOver(heir) => match heir.takeover.next() {
                Step::Settle(copies) => copies.into_iter().collect(),
                _ => Rc::default(),
            },
            Role::Absent | Role::Joins(_) | Role::Copies(_) => Rc::default(),
        }
    }

    /// The group of a shard.
    pub fn group(&self, number: u32) -> Option<&Group> {
        self.placed.group(&self.configuration, number)
    }

    /// The numbers of all shards.
    pub fn numbers(&self) -> Vec<u32> {
        self.shards.keys().copied().collect()
    }
}
