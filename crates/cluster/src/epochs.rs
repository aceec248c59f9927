//! The epoch of a node.
//!
//! A node makes an epoch durable before it answers anything in it, and refuses lower ones from then on, whoever brings them: a
//! peer, a client, or a configuration store that was restored from a copy. Another configuration of the same epoch is refused, too.

use std::fmt;

use stonecast_base::{Nanoseconds, mutant};
use uuid::Uuid;

use crate::configuration::{Configuration, ConfigurationId, Epoch, Nonce};
use crate::store::Pending;
use crate::timing::Timing;

/// What a node knows durably of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which cluster.
    pub nonce: Nonce,
    /// The latest configuration that the node was in.
    pub configuration: ConfigurationId,
    /// The longest lease of all its epochs: a copy that starts anew waits for one of these.
    pub longest_lease: Timing,
}

impl Known {
    /// The knowledge of a node that was in `configuration`, and in none before it.
    pub fn of(configuration: &Configuration) -> Self {
        Self {
            nonce: configuration.nonce,
            configuration: configuration.id(),
            longest_lease: configuration.policy.lease,
        }
    }
}

/// Where a node's epoch is kept: in its pool.
pub trait EpochCell {
    /// Why it cannot be kept.
    type Error: fmt::Display;

    /// What is kept; `None`: the pool never was part of a cluster.
    fn load(&self) -> Option<Known>;

    /// Keeps `known`. It is durable when this is done; a crash meanwhile leaves what was kept before, or this.
    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), Self::Error>>;
}

/// A configuration or a message that a node must not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The epoch is below one that the node has answered in.
    #[error("epoch {found} is past: this node is in epoch {known}")]
    Epoch {
        /// What was brought.
        found: Epoch,
        /// The node's own.
        known: Epoch,
    },
    /// The epoch is the node's own, and the configuration is another one.
    #[error(
        "epoch {epoch} has two configurations, of the attempts {found} and {known}: the store was restored from a copy, and needs a new nonce"
    )]
    OtherConfiguration {
        /// The epoch of both.
        epoch: Epoch,
        /// The attempt that stored the configuration that was brought.
        found: Uuid,
        /// The attempt that stored the node's own.
        known: Uuid,
    },
    /// The nonce is that of another cluster, or of this one before its configuration was restored.
    #[error(
        "the configuration is of cluster {found}, and this pool of cluster {known}: a pool of another cluster joins as a new node, \
         with a new pool"
    )]
    Cluster {
        /// What was brought.
        found: Nonce,
        /// The pool's.
        known: Nonce,
    },
}

impl ConfigurationId {
    /// True: the configuration `found` comes after this one. False: `found` is this one.
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
    /// As the cell has it.
    pub fn load(cell: &impl EpochCell) -> Self {
        Self { known: cell.load() }
    }

    /// What is durable. The node answers in this epoch and in no other one.
    pub fn known(&self) -> Option<Known> {
        self.known
    }

    /// True: `configuration` is of a later epoch than the node's own, which is to be raised first. False: it is the node's own.
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

    /// Goes over to the epoch of `configuration`: durable first. A crash inside leaves the epoch before, or this one.
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

/// Why a node did not go over to an epoch.
#[derive(Debug, thiserror::Error)]
pub enum RaiseError<E: fmt::Display> {
    /// It must not.
    #[error(transparent)]
    Stale(Stale),
    /// The epoch could not be made durable. The node goes on in its old one.
    #[error("the epoch could not be made durable: {0}")]
    NotKept(E),
}

/// The timing whose lease its grantor waits for longer.
fn longer(one: Timing, other: Timing) -> Timing {
    let awaited = |timing: Timing| -> Nanoseconds { timing.awaited(timing.duration_ns) };
    if awaited(one) >= awaited(other) {
        one
    } else {
        other
    }
}
