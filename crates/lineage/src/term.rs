//! Clusters, epochs and terms: the numbers in the history of a shard.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Distinguishes a cluster from every other cluster, and from itself before its configuration was restored from a copy.
/// A restored store may repeat epochs, which the new nonce shows.
pub type Nonce = Uuid;

/// Counts the configurations of a cluster: each change gives the next epoch.
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

/// The epoch in which a group's primary began: by a change of the primary, or by its start. Records and connections are
/// bound to a term.
pub type Term = Epoch;
