//! Failures of a backup, and the causes that end sessions.

use stonecast_fabric::{DeviceError, DisconnectCause};
use stonecast_media::PersistError;
use stonecast_persist::NoPlan;
use stonecast_persist::execute::{ExecuteError, NoCommit};

use crate::ledger::LedgerError;

/// The reason why an intake does not begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntakeError {
    /// No entry survives on the declared platform.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// The memory gives this node's own stores no way to survive.
    #[error(transparent)]
    NoCommit(#[from] NoCommit),
    /// The memory is not as declared.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The window of a session is too small for the longest entry.
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
        /// Credits of the posted segments but one.
        room: u64,
    },
    /// The medium failed: anything that was not durable may be lost. The owner has to open the pool again.
    #[error(transparent)]
    Medium(#[from] PersistError),
    /// The medium failed before.
    #[error("the medium has failed; open the pool anew")]
    Failed,
    /// The ledger was not written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The device refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl IntakeError {
    /// Whether bytes that were not durable before can no longer be trusted.
    pub(super) fn is_of_medium(&self) -> bool {
        matches!(
            self,
            Self::Medium(_) | Self::Ledger(LedgerError::Medium(_) | LedgerError::Failed)
        )
    }
}

/// The cause that ends a session.
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
    /// Another peer was in doubt, and what it wrote meanwhile may have been charged to this session. The next session
    /// counts from nothing.
    #[error("another node was in doubt, and the credits of this session may be counted wrongly")]
    Recounted,
    /// A stream was opened again, and gave up entries that this session had brought. Entries after them would wait in
    /// vain, and use up the credits for the entries before.
    #[error("a stream gave up entries that the node had sent, and the node sends them again")]
    Interrupted,
    /// The peer used more credits than it was given, and so the room of other nodes.
    #[error("the node used {used} credits, and had {granted}: it does not keep to its window")]
    Overdrawn {
        /// Credits that the session was given.
        granted: u64,
        /// Credits that its entries cost.
        used: u64,
    },
    /// A notice could not be sent, or its window could not be opened.
    #[error("a notice failed: {0}")]
    Notice(String),
}
