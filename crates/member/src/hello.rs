//! The first words of two nodes, and the reasons for a refusal.
//!
//! ```text
//!   hello      greeting    12 cluster u128    28 pool u128    44 incarnation u64    52 name, to the end
//!   welcome    greeting    the same, of the node that accepts
//! ```
//!
//! Each side tells its cluster, its pool, the number of its starts and its name; the other side compares them with the
//! configuration. So a node that was started twice, a wrong address and a pool under a foreign name are found before
//! any lease depends on them. A start that the other side does not know yet may speak, and may tell the configuration
//! that names the start; before that, the start is granted nothing. Platforms are not compared: no promise of these
//! sessions depends on them, and the configuration has the platform that each node declares.

use std::str;

use stonecast_cluster::{Configuration, NodeName, Nonce};
use stonecast_session::{Greeting, Mismatch, Protocol, Side};
use uuid::Uuid;

use crate::message::{Fields, Malformed};

/// The protocol among the nodes of a cluster.
pub(crate) const GREETING: Greeting = Greeting::of(Protocol {
    magic: *b"SCmember",
    name: "the nodes of a cluster",
    version: 2,
});

/// The identity of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster of the node.
    pub cluster: Nonce,
    /// The pool of the node.
    pub pool: Uuid,
    /// The number of its starts.
    pub incarnation: u64,
    /// The name of the node.
    pub name: NodeName,
}

/// The reason why a node does not talk to another node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unacceptable {
    /// A peer with another protocol, or another version of the protocol.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// Bytes without a meaning.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A node of another cluster, or of this cluster before its configuration was restored.
    #[error("{name} is of cluster {found}, and this node of cluster {known}")]
    OtherCluster {
        /// The node.
        name: NodeName,
        /// The cluster of the node.
        found: Nonce,
        /// The cluster of this node.
        known: Nonce,
    },
    /// The configuration has no such node.
    #[error("the configuration names no node {name}: start it with this cluster's store")]
    Unknown {
        /// The name.
        name: NodeName,
    },
    /// A node under the name of another node.
    #[error(
        "{name} is the name of pool {registered}, and this is pool {found}: start the node under its own name"
    )]
    OtherPool {
        /// The name.
        name: NodeName,
        /// The pool of that name.
        registered: Uuid,
        /// The pool that claims the name.
        found: Uuid,
    },
    /// An earlier start of the node.
    #[error("{name} was started again: this is its start {found}, and the last one is {known}")]
    Superseded {
        /// The node.
        name: NodeName,
        /// The incarnation of the node.
        found: u64,
        /// The latest incarnation.
        known: u64,
    },
    /// A start that this node does not know yet. The node will learn of it.
    #[error(
        "{name} says that this is its start {found}, and {known} is the last one known here: try again"
    )]
    NotYetKnown {
        /// The node.
        name: NodeName,
        /// The incarnation of the node.
        found: u64,
        /// The latest incarnation that this node knows.
        known: u64,
    },
    /// Another node answers at the address.
    #[error("{found} answers at the address of {expected}")]
    OtherNode {
        /// The node that was called.
        expected: NodeName,
        /// The node that answered.
        found: NodeName,
    },
}

impl Identity {
    /// Returns the first words of the node.
    pub(crate) fn say(&self) -> Vec<u8> {
        let mut rest = self.cluster.as_bytes().to_vec();
        rest.extend_from_slice(self.pool.as_bytes());
        rest.extend_from_slice(&self.incarnation.to_le_bytes());
        rest.extend_from_slice(self.name.as_str().as_bytes());
        GREETING.say(&rest)
    }

    /// Reads the first words of a peer on the side `who`.
    pub(crate) fn hear(who: Side, said: &[u8]) -> Result<Self, Unacceptable> {
        let mut fields = Fields {
            bytes: GREETING.hear(who, said)?,
            offset: 0,
        };
        let (cluster, pool) = (fields.array()?, fields.array()?);
        let incarnation = fields.u64()?;
        let no_name = fields.wrong("no name of a node");
        let name = str::from_utf8(fields.rest()).ok();
        let name = name.and_then(|name| name.parse().ok()).ok_or(no_name)?;
        Ok(Self {
            cluster: Uuid::from_bytes(cluster),
            pool: Uuid::from_bytes(pool),
            incarnation,
            name,
        })
    }

    /// Checks whether this node may speak: `configuration` knows it as it describes itself, or knows only earlier
    /// starts of it. A start that is not known yet is granted nothing.
    pub(crate) fn may_speak(&self, configuration: &Configuration) -> Result<(), Unacceptable> {
        match self.check(configuration) {
            Err(Unacceptable::NotYetKnown { .. }) => Ok(()),
            checked => checked,
        }
    }

    /// The number that identifies this start among the starts of all nodes.
    pub(crate) fn start(&self) -> (NodeName, u64) {
        (self.name.clone(), self.incarnation)
    }

    /// Checks whether `configuration` knows this node as it describes itself.
    pub(crate) fn check(&self, configuration: &Configuration) -> Result<(), Unacceptable> {
        let name = self.name.clone();
        if self.cluster != configuration.nonce {
            return Err(Unacceptable::OtherCluster {
                name,
                found: self.cluster,
                known: configuration.nonce,
            });
        }
        let Some(node) = configuration.nodes.get(&name) else {
            return Err(Unacceptable::Unknown { name });
        };
        if node.pool != self.pool {
            return Err(Unacceptable::OtherPool {
                name,
                registered: node.pool,
                found: self.pool,
            });
        }
        let (found, known) = (self.incarnation, node.incarnation);
        match found.cmp(&known) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => Err(Unacceptable::Superseded { name, found, known }),
            std::cmp::Ordering::Greater => Err(Unacceptable::NotYetKnown { name, found, known }),
        }
    }
}
