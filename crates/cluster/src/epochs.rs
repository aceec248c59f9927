//! The epoch of a node.
//!
//! A node makes an epoch durable before it answers anything in it, and refuses lower ones from then on, whoever brings them: a
//! peer, a client, or a configuration store that was restored from a copy.

use std::fmt;

use stonecast_base::Nanoseconds;

use crate::configuration::{Configuration, Epoch, Nonce};
use crate::store::Pending;
use crate::timing::Timing;

/// What a node knows durably of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which cluster.
    pub nonce: Nonce,
    /// The latest epoch that the node was in.
    pub epoch: Epoch,
    /// The longest lease of all its epochs: a copy that starts anew waits for one of these.
    pub longest_lease: Timing,
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

    /// Whether something said in `epoch` of the cluster `nonce` is to be listened to: `true`, in a later epoch than the node's own,
    /// which is to be raised first.
    pub fn is_ahead(&self, nonce: Nonce, epoch: Epoch) -> Result<bool, Stale> {
        let Some(known) = self.known else {
            return Ok(true);
        };
        if known.nonce != nonce {
            return Err(Stale::Cluster {
                found: nonce,
                known: known.nonce,
            });
        }
        if epoch < known.epoch {
            return Err(Stale::Epoch {
                found: epoch,
                known: known.epoch,
            });
        }
        Ok(epoch > known.epoch)
    }

    /// Goes over to the epoch of `configuration`: durable first. A crash inside leaves the epoch before, or this one.
    pub async fn raise<C: EpochCell>(
        &mut self,
        cell: &C,
        configuration: &Configuration,
    ) -> Result<(), RaiseError<C::Error>> {
        let Configuration {
            nonce,
            epoch,
            policy,
            ..
        } = configuration;
        if !self.is_ahead(*nonce, *epoch).map_err(RaiseError::Stale)? {
            return Ok(());
        }
        let longest_lease = match self.known {
            Some(known) => longer(known.longest_lease, policy.lease),
            None => policy.lease,
        };
        let known = Known {
            nonce: *nonce,
            epoch: *epoch,
            longest_lease,
        };
        cell.store(known).await.map_err(RaiseError::NotKept)?;
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
