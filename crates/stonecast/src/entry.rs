//! The entries and records of a store.

use stonecast_kv::Expiry;

/// A value with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value, 0 bytes to 16 MiB.
    pub value: Vec<u8>,
    /// The commit sequence number of the write that stored the value: of two versions of one key, the larger one is
    /// newer.
    pub version: u64,
    /// The moment from which the key is absent, by the server's time; `None`: the key does not expire.
    pub expires: Option<Expiry>,
}

/// A key with its value and version, as an iteration over the whole store yields it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key, 1 to 1024 bytes.
    pub key: Vec<u8>,
    /// The value, 0 bytes to 16 MiB.
    pub value: Vec<u8>,
    /// The version; see [`Entry::version`].
    pub version: u64,
    /// The moment from which the key is absent; see [`Entry::expires`].
    pub expires: Option<Expiry>,
}

impl From<stonecast_kv::Entry> for Record {
    fn from(entry: stonecast_kv::Entry) -> Self {
        let stonecast_kv::Entry {
            key,
            value,
            version,
            expires,
        } = entry;
        Self {
            key,
            value,
            version,
            expires,
        }
    }
}
