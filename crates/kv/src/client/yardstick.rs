//! What a benchmark needs to read the store's memory without the store.

use stonecast_fabric::{QueuePair, RemoteAddress};

use super::Client;
use crate::wire::table_size;

/// Where the memory is that one-sided reads go to. See `docs/design/0001` and `0004` for what stands in it.
#[derive(Clone, Copy, Debug)]
pub struct Yardstick {
    /// The client's queue pair.
    pub queue_pair: QueuePair,
    /// The first bucket of the index.
    pub index: RemoteAddress,
    /// Bytes of the index.
    pub index_size: u64,
    /// The first segment of the log.
    pub log: RemoteAddress,
    /// Key of the record tags.
    pub tag_key: u64,
}

impl Client {
    /// Where this client's one-sided reads go to.
    pub fn yardstick(&self) -> Yardstick {
        let inner = &*self.inner;
        Yardstick {
            queue_pair: inner.qp,
            index: inner.index_address(0),
            index_size: table_size(inner.access.get().index_bits),
            log: inner.log_address(0),
            tag_key: inner.format.tag_key,
        }
    }
}
