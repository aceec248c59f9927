//! The configuration of a cluster: one value, changed by compare-and-set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use stonecast_base::Nanoseconds;
use stonecast_media::{DeclaredPlatform, Durability};
use uuid::Uuid;

use crate::name::NodeName;
use crate::shards::HashRange;
use crate::timing::Timing;

/// Tells one cluster from every other, and a cluster from itself before its configuration was restored from a copy: a restored
/// store may repeat epochs, and its new nonce says so.
pub type Nonce = Uuid;

/// Counts the configurations of a cluster: each change gives the next one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The epoch in which a group's primary began: a change of primary, or its start. Records and connections are bound to it.
pub type Term = Epoch;

/// Who wrote a configuration, and in which attempt: an attempt of unknown outcome is recognised by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The writer: a node, or a tool.
    pub writer: String,
    /// Drawn anew for each attempt.
    pub number: Uuid,
}

/// What holds for the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Copies of each group, the primary included: 1 to 5.
    pub replicas: u8,
    /// Fewest copies in sync with which a group takes writes.
    pub min_copies: u8,
    /// How many ranges the key hashes are split into; 0: the cluster keeps no keys.
    pub shards: u32,
    /// Lease of a primary, and what its clocks are declared to do.
    pub lease: Timing,
    /// A copy that is silent for so long is removed from every group, nanoseconds.
    pub remove_after_ns: Nanoseconds,
}

impl Policy {
    /// Most copies of a group.
    pub const REPLICAS_MAX: u8 = 5;
    /// Most shards.
    pub const SHARDS_MAX: u32 = 4096;

    /// `replicas` copies of each of `shards` shards, with the lease of nodes that share their cores: 100 ms.
    ///
    /// Two copies are needed for a write where there are three or more, and one where there are fewer.
    pub fn new(replicas: u8, shards: u32) -> Self {
        Self {
            replicas,
            min_copies: if replicas >= 3 { 2 } else { 1 },
            shards,
            lease: Timing::SHARED_CORES,
            remove_after_ns: 500_000_000,
        }
    }
}

/// What a platform is declared to be, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlatform {
    /// Up to where bytes survive: `dmp`, `mhp`, `wsp`, `page-file` or `volatile`.
    pub persistence_domain: String,
    /// Where inbound writes land: `on` or `off`.
    pub ddio: String,
    /// What holds receive buffers: `dram` or `pm`.
    pub receive_buffers: String,
}

impl From<DeclaredPlatform> for NodePlatform {
    fn from(platform: DeclaredPlatform) -> Self {
        Self {
            persistence_domain: platform.persistence_domain.to_string(),
            ddio: platform.ddio.to_string(),
            receive_buffers: platform.receive_buffers.to_string(),
        }
    }
}

impl TryFrom<&NodePlatform> for DeclaredPlatform {
    type Error = stonecast_media::UnknownName;

    fn try_from(words: &NodePlatform) -> Result<Self, Self::Error> {
        Ok(Self {
            persistence_domain: words.persistence_domain.parse()?,
            ddio: words.ddio.parse()?,
            receive_buffers: words.receive_buffers.parse()?,
        })
    }
}

/// Whether copies are placed on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node keeps copies.
    Member,
    /// The node waits for copies to keep.
    Spare,
    /// The node's copies go elsewhere.
    Draining,
}

/// A node: one pool, served by one process at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The pool. Another pool under the same name is another node.
    pub pool: Uuid,
    /// Counts the starts of the process.
    pub incarnation: u64,
    /// What the pool promises to survive: `process` or `power`.
    pub survives: String,
    /// Where peers and clients reach the node.
    pub addresses: Vec<String>,
    /// What its platform is declared to be.
    pub platform: NodePlatform,
    /// What loses power together with the node; `None`: nothing else is known to.
    pub zone: Option<String>,
    /// Whether copies are placed there.
    pub state: NodeState,
}

impl Node {
    /// A node that was not seen before: a spare of incarnation 1.
    pub fn new(
        pool: Uuid,
        survives: Durability,
        platform: DeclaredPlatform,
        addresses: Vec<String>,
    ) -> Self {
        Self {
            pool,
            incarnation: 1,
            survives: survives.to_string(),
            addresses,
            platform: platform.into(),
            zone: None,
            state: NodeState::Spare,
        }
    }
}

/// What a group keeps copies of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    /// The keys with these hashes.
    Keys(HashRange),
    /// The structures of a back-end.
    BackEnd(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(range) => write!(formatter, "keys {:016x}-{:016x}", range.first, range.last),
            Self::BackEnd(name) => write!(formatter, "back-end {name}"),
        }
    }
}

/// A primary and the copies of what it leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Of what.
    pub subject: Subject,
    /// The epoch in which the primary began.
    pub term: Term,
    /// The node that leads; in sync.
    pub primary: NodeName,
    /// Nodes that have everything that was acknowledged. The primary waits for all of them.
    pub in_sync: BTreeSet<NodeName>,
    /// Nodes that are being filled. They are never promoted.
    pub joining: BTreeSet<NodeName>,
}

/// Nodes with a copy, or with a part of one.
pub type Copies<'a> = std::collections::btree_set::Union<'a, NodeName>;

impl Group {
    /// All nodes that keep something of this group.
    pub fn copies(&self) -> Copies<'_> {
        self.in_sync.union(&self.joining)
    }

    /// The nodes in sync beside the primary.
    pub fn backups(&self) -> impl Iterator<Item = &NodeName> {
        self.in_sync.iter().filter(|name| **name != self.primary)
    }
}

/// One configuration. Only [`changes`](Configuration::register) and decoding make one, and both check it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Which cluster.
    pub nonce: Nonce,
    /// Which of its configurations.
    pub epoch: Epoch,
    /// Who wrote it.
    pub attempt: Attempt,
    /// What holds for all of it.
    pub policy: Policy,
    /// Nodes by name.
    pub nodes: BTreeMap<NodeName, Node>,
    /// Groups in the order of their subjects. Ranges of hashes cover all hashes, or there are none.
    pub groups: Vec<Group>,
}

impl Configuration {
    /// The group that keeps the key with this hash. `None`: shards are not placed yet.
    pub fn group_of_hash(&self, hash: u64) -> Option<&Group> {
        // Ranges are sorted and stand before the back-ends.
        let after = self.groups.partition_point(
            |group| matches!(&group.subject, Subject::Keys(range) if range.first <= hash),
        );
        self.groups[..after].last()
    }

    /// The group of `subject`.
    pub fn group(&self, subject: &Subject) -> Option<&Group> {
        let index = self
            .groups
            .binary_search_by(|group| group.subject.cmp(subject))
            .ok()?;
        Some(&self.groups[index])
    }

    /// The groups that a node keeps something of.
    pub fn groups_of<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a Group> {
        self.groups
            .iter()
            .filter(move |group| group.in_sync.contains(node) || group.joining.contains(node))
    }
}
