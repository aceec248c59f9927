//! What a store does, in a thread that may block.

use stonecast_cluster::{Revision, StoreError, Stored, Swap};

/// A store as one of its threads has it. Each of them has a clone of its own.
pub trait Backend: Clone + Send + 'static {
    /// The newest value.
    fn read(&mut self) -> Result<Option<Stored>, Failure>;
    /// As [`ConfigStore::compare_and_set`](stonecast_cluster::ConfigStore::compare_and_set).
    fn swap(&mut self, expected: Option<Revision>, bytes: &[u8]) -> Result<Swap, Failure>;
    /// Waits until the newest revision is another one than `known`, or for some seconds. The newest revision.
    fn watch(&mut self, known: Option<Revision>) -> Result<Option<Revision>, Failure>;
}

/// A call that failed, with its reason for people.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Nothing was done, and another attempt may succeed: a watch goes on.
    Passing(String),
    /// Nothing was done, and somebody has to do something about it.
    Lasting(String),
    /// A compare-and-set may have been done, or may yet be.
    Unknown(String),
}

impl Failure {
    /// The failure as `store` reports it.
    pub fn of(self, store: &str) -> StoreError {
        let store = store.to_owned();
        match self {
            Self::Passing(reason) | Self::Lasting(reason) => StoreError::Refused { store, reason },
            Self::Unknown(reason) => StoreError::Unknown { store, reason },
        }
    }
}
