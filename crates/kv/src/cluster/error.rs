//! The errors of a client of a cluster.

use stonecast_cluster::DocumentError;

use crate::client::Token;
use crate::error::{Effect, StoreError};

/// The reason why a call to a cluster failed. [`ClusterError::effect`] tells what the failure means for the data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The configuration store was not reached, or refused the request.
    #[error("reading the configuration of the cluster: {0}")]
    Configuration(#[source] stonecast_cluster::StoreError),
    /// Neither the configuration store nor the nodes answered within the patience of the client.
    #[error("{store}: the cluster did not answer in time")]
    Unanswered {
        /// The store.
        store: String,
    },
    /// The configuration store has no configuration.
    #[error("{store}: there is no cluster; `stonecast cluster create` makes one")]
    NoConfiguration {
        /// The store.
        store: String,
    },
    /// The value of the configuration store is not a configuration that this program can read.
    #[error("{store}: {source}")]
    Unreadable {
        /// The store.
        store: String,
        /// The fault of the value.
        source: DocumentError,
    },
    /// The configuration names no shards: nodes are still missing, or the cluster keeps no keys.
    #[error("{store}: the configuration places no shards yet; see `stonecast cluster status`")]
    NotPlaced {
        /// The store.
        store: String,
    },
    /// The configuration names a different number of shards than before. Keys keep their shards for
    /// as long as a cluster lives.
    #[error("{store}: the configuration names {found} shards, and named {expected} before")]
    Shards {
        /// The store.
        store: String,
        /// The number of shards now.
        found: u32,
        /// The number of shards before.
        expected: u32,
    },
    /// No attempt has done anything, and none succeeded: the primary of the shard is gone, or changes.
    #[error("shard {shard} is not served: {source}; see `stonecast cluster status`")]
    NotServed {
        /// The shard.
        shard: u32,
        /// The reason why the last attempt failed.
        source: Box<StoreError>,
    },
    /// An attempt may have taken effect, and the outcome could not be found out in time.
    #[error("the outcome of the write is unknown: shard {shard} was not served in time: {source}")]
    Unknown {
        /// The shard.
        shard: u32,
        /// Names the write: with the token, a later call finds out the outcome, and does the write if it was not done.
        token: Box<Token>,
        /// The reason why the last attempt failed.
        source: Box<StoreError>,
    },
    /// A node refused the call, for a reason that holds at every node.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ClusterError {
    /// The effect that the failed call had on the data.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unknown { .. } => Effect::Unknown,
            Self::Store(error) => error.effect(),
            Self::Unanswered { .. }
            | Self::Configuration(_)
            | Self::NoConfiguration { .. }
            | Self::Unreadable { .. }
            | Self::NotPlaced { .. }
            | Self::Shards { .. }
            | Self::NotServed { .. } => Effect::None,
        }
    }
}
