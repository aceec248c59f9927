//! A key that was found.

use stonecast_log::Expiry;

/// A key that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundKey {
    /// The version.
    pub version: u64,
    /// The moment from which on the key is absent; `None`: the key does not expire.
    pub expires: Option<Expiry>,
}

/// The end of a search for a key.
pub(super) enum Sought {
    /// The key is absent.
    Absent,
    /// The key was found.
    Found(FoundKey),
    /// The key is there, and its value is in chunks and longer than the caller has room for. No chunk was read.
    TooLong,
}
