//! Where a configuration lives.

use std::future::Future;
use std::pin::Pin;

/// What a store promises to do, polled by the thread that asked.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Longest value of a store, bytes: an etcd takes requests of 1.5 MiB unless it is told otherwise.
pub const VALUE_SIZE_MAX: usize = 1 << 20;

/// Counts the values of one store: each compare-and-set that succeeds gives a higher one. No value has revision 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A value as a store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Which one.
    pub revision: Revision,
    /// The value.
    pub bytes: Vec<u8>,
}

/// What became of a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The value is stored, durably, under this revision.
    Done(Revision),
    /// The store has another revision than the expected one. Nothing was stored.
    Conflict,
}

/// A store that did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done: the store was not reached, or said no.
    #[error("{store}: {reason}")]
    Refused {
        /// Which store.
        store: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A compare-and-set may have been done, or may yet be.
    #[error("{store}: the outcome is unknown: {reason}")]
    Unknown {
        /// Which store.
        store: String,
        /// What happened.
        reason: String,
    },
}

/// One value that is changed by compare-and-set.
///
/// A store answers late, twice or not at all; its answers never contradict each other: revisions ascend, and what was read
/// after a compare-and-set was done is that value or a later one. Every future may be dropped at any time: a
/// compare-and-set that was dropped has an unknown outcome.
pub trait ConfigStore {
    /// The store as people call it: an address, or a path.
    fn name(&self) -> &str;

    /// The newest value; `None`: nothing was ever stored.
    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>>;

    /// Stores `bytes` if the newest revision is `expected`; `None`: if nothing was ever stored. Of any number of callers that expect the
    /// same revision exactly one is told `Done`, or none, where that one does not learn its outcome. More than [`VALUE_SIZE_MAX`] bytes are refused.
    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>>;

    /// The newest value once it is later than `since`. Waits as long as that takes.
    fn changed(&self, since: Option<Revision>) -> Pending<'_, Result<Stored, StoreError>>;
}
