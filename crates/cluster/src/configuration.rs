//! The configuration of a cluster: one value, changed by compare-and-set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use stonecast_base::{Nanoseconds, mutant};
pub use stonecast_lineage::{Epoch, Nonce, Term};
use stonecast_media::{DeclaredPlatform, Durability};
use uuid::Uuid;

use crate::name::NodeName;
use crate::shards::HashRange;
use crate::timing::Timing;

/// The writer of a configuration, and the attempt that stored it. The number identifies an attempt of unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The writer: a node, or a tool.
    pub writer: String,
    /// The number of the attempt, drawn for each attempt.
    pub number: Uuid,
}

/// Names one configuration of a cluster. A store that was restored under its old nonce repeats epochs. The number of
/// the attempt distinguishes two configurations of one epoch.
#[derive(Clone, Copy, Debug, Eq)]
pub struct ConfigurationId {
    /// The epoch of the configuration.
    pub epoch: Epoch,
    /// The number of the attempt that stored the configuration.
    pub attempt: Uuid,
}

impl PartialEq for ConfigurationId {
    fn eq(&self, other: &Self) -> bool {
        self.epoch == other.epoch && (self.attempt == other.attempt || mutant!(AttemptNotCompared))
    }
}

/// The settings of the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Number of copies of each group, including the primary: 1 to 5.
    pub replicas: u8,
    /// The fewest copies in sync with which a group takes writes.
    pub min_copies: u8,
    /// Number of ranges into which the key hashes are split; 0 if the cluster keeps no keys.
    pub shards: u32,
    /// Lease of a primary, and the declaration of its clocks.
    pub lease: Timing,
    /// Silence after which a copy is removed from every group, in nanoseconds.
    pub remove_after_ns: Nanoseconds,
    /// The seed by which all nodes hash keys. Every client of the cluster knows the seed; a party without it can guess
    /// no keys of one shard. `None`: the cluster keeps no keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_seed: Option<HashSeed>,
}

/// The seed of the hashes of keys: 16 hexadecimal digits in a document, and hidden in messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(pub u64);

impl fmt::Debug for HashSeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HashSeed(..)")
    }
}

impl Serialize for HashSeed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for HashSeed {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let seed = u64::from_str_radix(&text, 16).ok();
        // The digits of another seed are not told.
        let is_canonical = |seed: &u64| format!("{seed:016x}") == text;
        let seed = seed.filter(is_canonical).map(Self);
        seed.ok_or_else(|| serde::de::Error::custom("hash_seed is not 16 hexadecimal digits"))
    }
}

impl Policy {
    /// The most copies of a group.
    pub const REPLICAS_MAX: u8 = 5;
    /// The most shards.
    pub const SHARDS_MAX: u32 = 4096;

    /// A policy of `replicas` copies of each of `shards` shards, with the lease of nodes that share their cores: 100
    /// ms.
    ///
    /// A write needs two copies in sync if there are three replicas or more, and otherwise one.
    pub fn new(replicas: u8, shards: u32) -> Self {
        Self {
            replicas,
            min_copies: if replicas >= 3 { 2 } else { 1 },
            shards,
            lease: Timing::SHARED_CORES,
            remove_after_ns: 500_000_000,
            hash_seed: None,
        }
    }
}

/// The declaration of a platform, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlatform {
    /// Persistence domain: `dmp`, `mhp`, `wsp`, `page-file` or `volatile`.
    pub persistence_domain: String,
    /// Whether inbound writes land in caches: `on` or `off`.
    pub ddio: String,
    /// Memory of receive buffers: `dram` or `pm`.
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

/// The state of a node, which decides whether copies are placed on the node.
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

impl fmt::Display for NodeState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Member => "member",
            Self::Spare => "spare",
            Self::Draining => "draining",
        })
    }
}

/// A node: one pool, served by one process at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The pool. Another pool under the same name is another node.
    pub pool: Uuid,
    /// The number of the starts of the process.
    pub incarnation: u64,
    /// The failure that the pool promises to survive: `process` or `power`.
    pub survives: String,
    /// Addresses at which peers and clients reach the node.
    pub addresses: Vec<String>,
    /// The declaration of the node's platform.
    pub platform: NodePlatform,
    /// The power zone: nodes of one zone lose power together. `None` if no zone is known.
    pub zone: Option<String>,
    /// Whether copies are placed on the node.
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

/// The data that the copies of a group hold.
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

/// A primary, and the copies of the subject that it leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The subject of the copies.
    pub subject: Subject,
    /// The epoch in which the primary began.
    pub term: Term,
    /// The node that leads, which is in sync.
    pub primary: NodeName,
    /// Nodes that have every acknowledged write. The primary waits for all of them.
    pub in_sync: BTreeSet<NodeName>,
    /// Nodes that are being filled, each with the number of its join: the epoch in which the join began. A joining node
    /// is never promoted.
    pub joining: BTreeMap<NodeName, Epoch>,
    /// Nodes in sync that go once the group does without them ([`Configuration::relieved`]).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub leaving: BTreeSet<NodeName>,
}

impl Group {
    /// All nodes that keep a copy of this group, or a part of a copy.
    #[inline]
    pub fn copies(&self) -> impl Iterator<Item = &NodeName> {
        self.in_sync.iter().chain(self.joining.keys())
    }

    /// The copies that stay, and the copies that are joining.
    pub fn kept(&self) -> impl Iterator<Item = &NodeName> {
        self.copies().filter(|name| !self.leaving.contains(*name))
    }

    /// Returns whether `node` keeps a copy of this group, or a part of a copy.
    #[inline]
    pub fn has_copy(&self, node: &NodeName) -> bool {
        self.in_sync.contains(node) || self.joining.contains_key(node)
    }

    /// The nodes in sync, without the primary.
    pub fn backups(&self) -> impl Iterator<Item = &NodeName> {
        self.in_sync.iter().filter(|name| **name != self.primary)
    }
}

/// One configuration. Only [`changes`](Configuration::register) and decoding make one, and both check it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The cluster.
    pub nonce: Nonce,
    /// The number of the configuration.
    pub epoch: Epoch,
    /// The attempt that stored the configuration.
    pub attempt: Attempt,
    /// The settings of the cluster.
    pub policy: Policy,
    /// Nodes by name.
    pub nodes: BTreeMap<NodeName, Node>,
    /// Groups in the order of their subjects. Ranges of hashes cover all hashes, or no group has a range.
    pub groups: Vec<Group>,
}

impl Configuration {
    /// The name of the configuration among the configurations of its cluster.
    #[inline]
    pub fn id(&self) -> ConfigurationId {
        ConfigurationId {
            epoch: self.epoch,
            attempt: self.attempt.number,
        }
    }

    /// The group that keeps the keys with this hash; `None` if shards are not placed yet.
    #[inline]
    pub fn group_of_hash(&self, hash: u64) -> Option<&Group> {
        // Ranges are sorted and stand before the back-ends.
        let after = self.groups.partition_point(
            |group| matches!(&group.subject, Subject::Keys(range) if range.first <= hash),
        );
        self.groups[..after].last()
    }

    /// The group of `subject`.
    #[inline]
    pub fn group(&self, subject: &Subject) -> Option<&Group> {
        let index = self
            .groups
            .binary_search_by(|group| group.subject.cmp(subject))
            .ok()?;
        Some(&self.groups[index])
    }

    /// The groups for which a node keeps a copy, or a part of a copy.
    pub fn groups_of<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a Group> {
        self.groups.iter().filter(move |group| group.has_copy(node))
    }
}
