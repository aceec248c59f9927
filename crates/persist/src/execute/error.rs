//! The reasons why an update was not persisted, and their meaning for the update.

use stonecast_fabric::{DeviceError, Status};
use stonecast_media::{PersistError, PersistenceDomain};

use crate::execute::placing::PlacedInCache;
use crate::plan::NoPlan;

/// The reason why an update was not persisted, or is not known to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The device lacks what a step needs; nothing was done.
    #[error(
        "{device} has no {capability}, which the plan's {step} needs; declare what the device has and plan again"
    )]
    Missing {
        /// The device.
        device: String,
        /// The missing capability.
        capability: &'static str,
        /// The step.
        step: String,
    },
    /// The medium does not match the platform; nothing was done.
    #[error(
        "the plan is for persistence = {declared}, but the medium makes bytes durable by {found}: {cure}"
    )]
    Medium {
        /// The persistence domain of the platform.
        declared: PersistenceDomain,
        /// The means of the medium.
        found: &'static str,
        /// The remedy.
        cure: &'static str,
    },
    /// A processor places bytes although the plan relies on a NIC; nothing was done.
    #[error(transparent)]
    Placing(#[from] PlacedInCache),
    /// The plan is for appends; nothing was done.
    #[error(
        "the plan's {step} leaves the place to the responder: run it with an appender and an append receiver"
    )]
    Appends {
        /// The step.
        step: String,
    },
    /// The platform has no plan; nothing was done.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// No responder has this plan.
    #[error("no responder of this plan at {address}: {reason}")]
    Rejected {
        /// The address.
        address: String,
        /// The reason from there.
        reason: String,
    },
    /// The update does not fit the plan or the responder; nothing was done.
    #[error("{reason}")]
    Update {
        /// The reason, as a sentence.
        reason: String,
    },
    /// Something was posted, and its outcome is unknown: the update may or may not be persisted. Connect again, and
    /// check.
    #[error("{step} did not end well ({cause}); whether the update is persisted is unknown")]
    Unknown {
        /// The step at which the failure showed.
        step: String,
        /// The failure.
        cause: String,
    },
    /// The session ended with an earlier update, whose outcome is unknown; nothing was done.
    #[error("an earlier update of this session did not end well; connect again")]
    Spent,
    /// The other side broke the protocol.
    #[error("the other side broke the protocol: {what}")]
    Protocol {
        /// The broken rule.
        what: &'static str,
    },
    /// The device refused a call; nothing of the update was done.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The medium of the responder failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// A completion reports a failure. The requester turns this into [`ExecuteError::Unknown`].
    #[doc(hidden)]
    #[error("the request failed: {0}")]
    Completion(Status),
}

/// The meaning of an error for the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateEffect {
    /// Nothing was done.
    None,
    /// The update may or may not be persisted, now or later.
    Unknown,
}

impl ExecuteError {
    /// The meaning of the error for the update. Never *done*, and *not done* only if nothing was posted.
    pub fn effect(&self) -> UpdateEffect {
        match self {
            Self::Unknown { .. } | Self::Completion(_) | Self::Persist(_) => UpdateEffect::Unknown,
            Self::Missing { .. }
            | Self::Medium { .. }
            | Self::Placing(_)
            | Self::Appends { .. }
            | Self::NoPlan(_)
            | Self::Rejected { .. }
            | Self::Update { .. }
            | Self::Spent
            | Self::Protocol { .. }
            | Self::Device(_) => UpdateEffect::None,
        }
    }
}
