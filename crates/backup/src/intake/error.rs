//! Failures of a backup, and causes of ends.

use stonecast_fabric::{DeviceError, DisconnectCause};
use stonecast_log::LedgerFull;
use stonecast_media::PersistError;
use stonecast_persist::NoPlan;
use stonecast_persist::execute::{ExecuteError, NoCommit};

/// Why an intake does not begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntakeError {
    /// Nothing survives on the declared platform.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// This node's own stores have no way to survive.
    #[error(transparent)]
    NoCommit(#[from] NoCommit),
    /// The memory is not what was declared.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The window of a session does not pay the longest entry.
    #[error(
        "a window of {window} credits, and the longest entry costs {longest}: raise the window"
    )]
    WindowTooSmall {
        /// Credits of the window.
        window: u64,
        /// Credits of the longest entry.
        longest: u64,
    },
    /// One posted segment may be full and wait for its search: the others have to pay all windows.
    #[error(
        "the windows of all sessions are {windows} credits, and {room} stay while a segment is searched: raise the segments that are ahead, or lower window or sessions"
    )]
    RoomTooSmall {
        /// Credits of all windows.
        windows: u64,
        /// Credits of the posted segments without one.
        room: u64,
    },
    /// The medium failed: any of what was not durable may be lost. The pool has to be opened anew.
    #[error(transparent)]
    Medium(#[from] PersistError),
    /// The medium failed before.
    #[error("the medium has failed; open the pool anew")]
    Failed,
    /// More shards than a ledger has room for.
    #[error(transparent)]
    LedgerFull(#[from] LedgerFull),
    /// No segment holds a ledger yet.
    #[error("no segment is filled by appends yet, so no ledger can be kept; lend one")]
    NoSegment,
    /// The device refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndCause {
    /// The connection ended.
    #[error("the connection ended: {0:?}")]
    Disconnected(DisconnectCause),
    /// The same node said hello again.
    #[error("the node connected again")]
    ConnectedAgain,
    /// The store fenced the peer.
    #[error("the node was fenced")]
    Fenced,
    /// The intake was closed.
    #[error("the backup was closed")]
    Closed,
    /// A notice could not be sent, or its window could not be opened.
    #[error("a notice failed: {0}")]
    Notice(String),
}
