//! The reasons why a standing record stops a server or a command.

use stonecast_cluster::StoreError;

/// A standing record that stops a server or a command. The pool is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the standing record in {store}: {fault}")]
pub struct StandingRecordError {
    /// The store.
    pub store: String,
    /// The fault, and the remedy.
    pub fault: StandingFault,
}

/// The fault of a standing record. Pools and contents are named by their numbers, as `stonecast inspect` shows them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandingFault {
    /// The value in the store is not a record.
    #[error("the store holds something else; name a store of its own for each pool and its mirror")]
    NotOne,
    /// Another version of the program wrote the record.
    #[error(
        "it has format {found}, which this program does not read; use the program that wrote it, or a newer one"
    )]
    OtherFormat {
        /// The format of the record.
        found: u32,
    },
    /// The bytes differ from those that were written.
    #[error("it is damaged; restore the store from a backup")]
    Damaged,
    /// The pool knows a record, and the store has none.
    #[error(
        "there is none, and the pool has one elsewhere; name that store. If the store is lost, detach the pool with the statement that its mirror is destroyed"
    )]
    Absent,
    /// The record belongs to other data structures.
    #[error(
        "it belongs to the content {content:032x}, and this pool holds {ours:032x}; name a store of its own for each pool and its mirror"
    )]
    Foreign {
        /// The content of the record.
        content: u128,
        /// The content of the pool.
        ours: u128,
    },
    /// Another pool has followed this one.
    #[error(
        "pool {back_end:032x} is the back-end of generation {generation}, and this pool is of generation {ours}: it was succeeded. Serve it as the mirror of that back-end"
    )]
    Succeeded {
        /// The pool that is the back-end's.
        back_end: u128,
        /// The generation of that back-end.
        generation: u64,
        /// The generation of this pool.
        ours: u64,
    },
    /// The record names a mirror, and the pool is served without it.
    #[error(
        "it binds this pool to the mirror {mirror:032x}; name that mirror, or detach the pool from it first"
    )]
    BoundToOther {
        /// The mirror of the record.
        mirror: u128,
    },
    /// The pool was detached while it was served.
    #[error(
        "the pool was detached, and is of generation {generation}; start the back-end again, which notes it in the pool"
    )]
    Detached {
        /// The generation of the record.
        generation: u64,
    },
    /// The record lacks facts that the pool knows.
    #[error(
        "it is of generation {generation} and knows less than this pool of generation {ours}: the store was restored from an old copy. Restore a later one"
    )]
    Older {
        /// The generation of the record.
        generation: u64,
        /// The generation of the pool.
        ours: u64,
    },
    /// The pool lacks what the record knows.
    #[error(
        "it is of generation {generation} and knows more than this pool of generation {ours}: the pool was restored from an old copy. Serve it as a mirror, or give the server an empty folder"
    )]
    PoolOlder {
        /// The generation of the record.
        generation: u64,
        /// The generation of the pool.
        ours: u64,
    },
    /// Two pools are the back-end's of one generation.
    #[error(
        "pool {back_end:032x} is the back-end of generation {generation}, and so is this pool of generation {ours}; decide which of them counts, and give the other server an empty folder"
    )]
    Rival {
        /// The pool that is the back-end's.
        back_end: u128,
        /// The generation of that back-end.
        generation: u64,
        /// The generation of this pool.
        ours: u64,
    },
    /// The record does not name the mirror.
    #[error(
        "pool {back_end:032x} is the back-end of generation {generation} and is not bound to this mirror of generation {ours}; the mirror is not promoted, and that back-end may fill it anew"
    )]
    NotNamed {
        /// The pool that is the back-end's.
        back_end: u128,
        /// The generation of that back-end.
        generation: u64,
        /// The generation of the mirror.
        ours: u64,
    },
    /// The store was not reached.
    #[error(transparent)]
    Store(StoreError),
}

impl StandingFault {
    /// Whether a back-end that serves has to end. Under all other faults the back-end waits: whatever the store holds,
    /// the back-end acknowledges nothing that its mirror lacks.
    pub(super) fn ends_a_back_end(&self) -> bool {
        matches!(
            self,
            Self::Succeeded { .. }
                | Self::BoundToOther { .. }
                | Self::Detached { .. }
                | Self::PoolOlder { .. }
                | Self::Rival { .. }
        )
    }
}
