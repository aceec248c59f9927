//! The facts that a benchmark needs to read the store's memory without the store.

use stonecast_fabric::{QueuePair, RemoteAddress};

/// The memory that one-sided reads access. `docs/design/0001` and `0004` describe its content.
#[derive(Clone, Copy, Debug)]
pub struct Yardstick {
    /// The client's queue pair.
    pub queue_pair: QueuePair,
    /// The first bucket of the index of the first shard.
    pub index: RemoteAddress,
    /// Bytes of that index.
    pub index_size: u64,
    /// The first segment of the log.
    pub log: RemoteAddress,
    /// Key of the record tags.
    pub tag_key: u64,
}
