//! The operations of a store, in a thread that may block.

use stonecast_cluster::{Revision, StoreError, Stored, Swap};

/// A store as used by one of its threads. Each thread has a clone of its own.
pub trait Backend: Clone + Send + 'static {
    /// The newest value.
    fn read(&mut self) -> Result<Option<Stored>, Failure>;
    /// Like [`ConfigStore::compare_and_set`](stonecast_cluster::ConfigStore::compare_and_set).
    fn swap(&mut self, expected: Option<Revision>, bytes: &[u8]) -> Result<Swap, Failure>;
    /// Waits until the newest revision differs from `known`, or for some seconds. Returns the newest revision.
    fn watch(&mut self, known: Option<Revision>) -> Result<Option<Revision>, Failure>;
}

/// A call that failed, with its reason for people.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Nothing was done, and another attempt may succeed: a watch continues.
    Passing(String),
    /// Nothing was done, and the operator has to act.
    Lasting(String),
    /// A compare-and-set may have been done, or may be done later.
    Unknown(String),
}

impl Failure {
    /// The failure as reported by `store`.
    pub fn of(self, store: &str) -> StoreError {
        let store = store.to_owned();
        match self {
            Self::Passing(reason) | Self::Lasting(reason) => StoreError::Refused { store, reason },
            Self::Unknown(reason) => StoreError::Unknown { store, reason },
        }
    }
}
