//! The errors of a front-end.

use stonecast_fabric::{DeviceError, Status};
use stonecast_persist::execute::NoAgreement;
use stonecast_session::{ConnectError, Mismatch};

use super::reader::TRIES_MAX;
use super::writer::StageFault;
use crate::shapes::Stale;
use crate::wire::FrontEndName;

/// The error of a call of a front-end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrontEndError {
    /// No connection exists.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The peer is not a back-end of this version.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// No plan makes records durable there.
    #[error(transparent)]
    NoAgreement(#[from] NoAgreement),
    /// The device refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A READ or WRITE failed. It is unknown whether a WRITE was done.
    #[error("the connection to the back-end failed: {0:?}")]
    Failed(Status),
    /// The back-end is gone. It is unknown whether the last request was done.
    #[error("the back-end is gone")]
    Gone,
    /// The back-end broke the protocol.
    #[error("the back-end does not keep to the protocol")]
    Protocol,
    /// The server is a mirror.
    #[error(
        "the server is a mirror of generation {generation} that {}, and serves no front-end; connect to its back-end, or promote the mirror if that is gone for good",
        if *.is_whole { "has everything" } else { "lacks a part of the pool" }
    )]
    IsMirror {
        /// The generation of the mirror's back-end; 0: the mirror has had none.
        generation: u64,
        /// Whether the mirror has everything, and may be promoted.
        is_whole: bool,
    },
    /// Another front-end has the tenure of the domain.
    #[error("domain {domain} has a writer: tenure {tenure}{}", of(holder))]
    Held {
        /// The domain.
        domain: u32,
        /// The tenure of the other front-end.
        tenure: u32,
        /// The name that the writer gave itself.
        holder: FrontEndName,
    },
    /// The tenure of this front-end is over. Operations that were not reported as durable may count or not.
    #[error("the tenure of domain {domain} is over")]
    Over {
        /// The domain.
        domain: u32,
    },
    /// The domain does not exist.
    #[error("there is no domain {domain}")]
    NoDomain {
        /// The domain.
        domain: u32,
    },
    /// The domain has no structure of this name, or no longer has one.
    #[error("the domain has no such structure")]
    NoStructure,
    /// Nodes of this version of a multi-version structure are used again.
    #[error("the version is too old: the memory of its nodes is used again. Read a later one")]
    TooOld,
    /// The domain is damaged.
    #[error("domain {domain} is damaged; the back-end knows the place")]
    Damaged {
        /// The domain.
        domain: u32,
    },
    /// The pool of the back-end has no room.
    #[error("the pool of the back-end is full")]
    NoRoom,
    /// The domain has the most slabs that it may have.
    #[error("domain {domain} has as much memory of the pool as it may have")]
    OverQuota {
        /// The domain.
        domain: u32,
    },
    /// The operation is not staged.
    #[error(transparent)]
    Stage(#[from] StageFault),
    /// A structure kept changing, or is damaged.
    #[error("after {TRIES_MAX} tries: {0}")]
    Stale(Stale),
}

fn of(holder: &FrontEndName) -> String {
    match holder.as_str() {
        "" => String::new(),
        name => format!(" of {name}"),
    }
}
