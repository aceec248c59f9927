//! The store of a configuration.

use std::future::Future;
use std::pin::Pin;

/// A request to a store, polled by the thread that made it.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Size of the longest value of a store, in bytes: an etcd takes requests of 1.5 MiB by default.
pub const VALUE_SIZE_MAX: usize = 1 << 20;

/// Counts the values of one store: each compare-and-set that succeeds gives a higher one. No value has revision 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A value in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Revision of the value.
    pub revision: Revision,
    /// The value.
    pub bytes: Vec<u8>,
}

/// The outcome of a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The value is stored, durably, under this revision.
    Done(Revision),
    /// The store has another revision than the expected revision. Nothing was stored.
    Conflict,
}

/// The failure of a request to a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done: the store was not reached, or refused the request.
    #[error("{store}: {reason}")]
    Refused {
        /// The store.
        store: String,
        /// The fault, and the remedy.
        reason: String,
    },
    /// A compare-and-set may have taken effect, or may take effect later.
    #[error("{store}: the outcome is unknown: {reason}")]
    Unknown {
        /// The store.
        store: String,
        /// The event that hides the outcome.
        reason: String,
    },
}

/// One value that is changed by compare-and-set.
///
/// A store may answer late, twice or not at all, but its answers never contradict each other: revisions ascend, and a
/// read after a finished compare-and-set returns that value or a later one. Every future may be dropped at any time: a
/// dropped compare-and-set has an unknown outcome.
pub trait ConfigStore {
    /// The name of the store for people: an address, or a path.
    fn name(&self) -> &str;

    /// Reads the newest value; `None` if nothing was ever stored.
    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>>;

    /// Stores `bytes` if the newest revision is `expected`, or, with `None`, if nothing was ever stored. Of all callers
    /// that expect the same revision, at most one gets `Done`. No caller gets `Done` if the successful caller does not
    /// learn its outcome. More than [`VALUE_SIZE_MAX`] bytes are refused.
    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>>;

    /// Waits for a value later than `since`, and returns the newest value.
    fn changed(&self, since: Option<Revision>) -> Pending<'_, Result<Stored, StoreError>>;
}
