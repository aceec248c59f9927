//! The epoch of a node.
//!
//! A node makes an epoch durable before it answers anything in that epoch. From then on it refuses lower epochs from
//! every source: a peer, a client, or a configuration store that was restored from a copy. Another configuration of the
//! same epoch is refused, too.

use std::fmt;

use stonecast_base::{Nanoseconds, mutant};
use uuid::Uuid;

use crate::configuration::{Configuration, ConfigurationId, Epoch, Nonce};
use crate::store::Pending;
use crate::timing::Timing;

/// The durable knowledge of a node about its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The cluster.
    pub nonce: Nonce,
    /// The latest configuration that the node was in.
    pub configuration: ConfigurationId,
    /// The longest lease of all epochs of the node: a copy that starts again waits for such a lease.
    pub longest_lease: Timing,
}

impl Known {
    /// The knowledge of a node whose first configuration is `configuration`.
    pub fn of(configuration: &Configuration) -> Self {
        Self {
            nonce: configuration.nonce,
            configuration: configuration.id(),
            longest_lease: configuration.policy.lease,
        }
    }
}

/// The place in a pool that keeps the node's epoch.
pub trait EpochCell {
    /// The reason why the cell cannot keep an epoch.
    type Error: fmt::Display;

    /// The knowledge in the cell; `None` if the pool never was part of a cluster.
    fn load(&self) -> Option<Known>;

    /// Keeps `known`, which is durable when the future is done. A crash meanwhile leaves the previous knowledge, or
    /// `known`.
    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), Self::Error>>;
}

/// A configuration or a message that a node must not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The epoch is below an epoch in which the node has answered.
    #[error("epoch {found} is past: this node is in epoch {known}")]
    Epoch {
        /// The epoch that was brought.
        found: Epoch,
        /// The epoch of the node.
        known: Epoch,
    },
    /// The epoch is that of the node, and the configuration is another.
    #[error(
        "epoch {epoch} has two configurations, of the attempts {found} and {known}: the store was restored from a copy, and needs a new nonce"
    )]
    OtherConfiguration {
        /// The epoch of both.
        epoch: Epoch,
        /// The attempt that stored the configuration that was brought.
        found: Uuid,
        /// The attempt that stored the node's configuration.
        known: Uuid,
    },
    /// The nonce is that of another cluster, or of this cluster before its configuration was restored.
    #[error(
        "the configuration is of cluster {found}, and this pool of cluster {known}: a pool of another cluster joins as a new node, \
         with a new pool"
    )]
    Cluster {
        /// The nonce that was brought.
        found: Nonce,
        /// The nonce of the pool.
        known: Nonce,
    },
}

impl ConfigurationId {
    /// Returns true if the configuration `found` comes after this configuration, and false if `found` is this
    /// configuration.
    pub fn is_before(self, found: Self) -> Result<bool, Stale> {
        if found.epoch < self.epoch {
            return Err(Stale::Epoch {
                found: found.epoch,
                known: self.epoch,
            });
        }
        if found.epoch == self.epoch && found != self {
            return Err(Stale::OtherConfiguration {
                epoch: self.epoch,
                found: found.attempt,
                known: self.attempt,
            });
        }
        Ok(found.epoch > self.epoch)
    }
}

/// The epoch of a running node.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    known: Option<Known>,
}

impl Epochs {
    /// Loads the epoch from its cell.
    pub fn load(cell: &impl EpochCell) -> Self {
        Self { known: cell.load() }
    }

    /// The durable knowledge. The node answers in this epoch alone.
    pub fn known(&self) -> Option<Known> {
        self.known
    }

    /// Returns true if `configuration` is of a later epoch than the node's own, which then has to be raised first.
    /// Returns false if the node is in `configuration`.
    pub fn is_ahead(&self, configuration: &Configuration) -> Result<bool, Stale> {
        let Some(known) = self.known else {
            return Ok(true);
        };
        if known.nonce != configuration.nonce {
            return Err(Stale::Cluster {
                found: configuration.nonce,
                known: known.nonce,
            });
        }
        known.configuration.is_before(configuration.id())
    }

    /// Makes the epoch of `configuration` durable, and then enters it. A crash meanwhile leaves the previous epoch, or
    /// this epoch.
    pub async fn raise<C: EpochCell>(
        &mut self,
        cell: &C,
        configuration: &Configuration,
    ) -> Result<(), RaiseError<C::Error>> {
        if !self.is_ahead(configuration).map_err(RaiseError::Stale)? {
            return Ok(());
        }
        let mut known = Known::of(configuration);
        if let Some(before) = self.known {
            known.longest_lease = longer(before.longest_lease, known.longest_lease);
        }
        if !mutant!(EpochForgotten) {
            cell.store(known).await.map_err(RaiseError::NotKept)?;
        }
        self.known = Some(known);
        Ok(())
    }
}

/// The reason why a node did not enter an epoch.
#[derive(Debug, thiserror::Error)]
pub enum RaiseError<E: fmt::Display> {
    /// The node must not enter the epoch.
    #[error(transparent)]
    Stale(Stale),
    /// The epoch could not be made durable. The node stays in its previous epoch.
    #[error("the epoch could not be made durable: {0}")]
    NotKept(E),
}

/// Returns the timing whose lease makes the grantor wait longer.
fn longer(one: Timing, other: Timing) -> Timing {
    let awaited = |timing: Timing| -> Nanoseconds { timing.awaited(timing.duration_ns) };
    if awaited(one) >= awaited(other) {
        one
    } else {
        other
    }
}
