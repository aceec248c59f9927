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
