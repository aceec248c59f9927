//! Whether a pool is a copy of a group.

use stonecast_media::Durability;
use uuid::Uuid;

use crate::configuration::{Configuration, Subject};
use crate::epochs::Known;
use crate::name::NodeName;

/// What happened to a pool since it was last served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survived {
    /// It was closed.
    Close,
    /// Its processes died.
    ProcessDeath,
    /// Its machine lost power, or nobody knows whether it did.
    PowerLoss,
}

/// What a node finds when it opens its pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolFacts {
    /// Which pool.
    pub pool: Uuid,
    /// The cluster that it is of, and its epoch; `None`: of none.
    pub known: Option<Known>,
    /// What the pool promises to survive.
    pub promise: Durability,
    /// What it had to survive.
    pub survived: Survived,
    /// The last version up to which everything of the group is there.
    pub contiguous: u64,
    /// The highest version of the group that was ever known to be on all copies.
    pub horizon: u64,
}

/// Why a pool is no copy. The node joins with an empty one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotACopy {
    /// The configuration has no copy of the group there.
    #[error("the configuration keeps no copy of {subject} on {node}")]
    NotNamed {
        /// The group.
        subject: Subject,
        /// The node.
        node: NodeName,
    },
    /// The node's name is that of another pool.
    #[error("{node} is the name of pool {registered}, and this is pool {found}")]
    OtherPool {
        /// The node.
        node: NodeName,
        /// The pool of that name.
        registered: Uuid,
        /// This pool.
        found: Uuid,
    },
    /// The pool is of another cluster, or of an earlier life of this one.
    #[error("the pool is of another cluster, or was in none")]
    OtherCluster,
    /// What happened is more than the pool promises to survive.
    #[error(
        "the machine lost power, and the pool promises to survive the death of processes alone"
    )]
    PromiseExceeded,
    /// Something that was on all copies is missing.
    #[error("versions from {first} to {horizon} are missing, and were on all copies")]
    Gap {
        /// The first one.
        first: u64,
        /// The highest one that is known to have been on all copies.
        horizon: u64,
    },
}

/// Whether the pool that `node` has opened is a copy of `subject` that counts: the configuration names it, it survived what
/// happened to it, and nothing is missing below a version that was known to be on all copies.
pub fn eligible(
    configuration: &Configuration,
    node: &NodeName,
    subject: &Subject,
    facts: &PoolFacts,
) -> Result<(), NotACopy> {
    let group = configuration.group(subject);
    let is_named = group.is_some_and(|group| group.in_sync.contains(node));
    let registered = configuration.nodes.get(node).filter(|_| is_named);
    let Some(registered) = registered else {
        return Err(NotACopy::NotNamed {
            subject: subject.clone(),
            node: node.clone(),
        });
    };
    if registered.pool != facts.pool {
        return Err(NotACopy::OtherPool {
            node: node.clone(),
            registered: registered.pool,
            found: facts.pool,
        });
    }
    if facts.known.map(|known| known.nonce) != Some(configuration.nonce) {
        return Err(NotACopy::OtherCluster);
    }
    if facts.promise == Durability::Process && facts.survived == Survived::PowerLoss {
        return Err(NotACopy::PromiseExceeded);
    }
    if facts.contiguous < facts.horizon {
        return Err(NotACopy::Gap {
            first: facts.contiguous + 1,
            horizon: facts.horizon,
        });
    }
    Ok(())
}
