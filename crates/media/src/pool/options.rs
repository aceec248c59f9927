//! The properties of a new pool.

use crate::{DeclaredPlatform, Durability};

/// The properties of a new pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Bytes of the log; a multiple of `segment_size`.
    pub capacity: u64,
    /// Bytes of a segment; a power of two.
    pub segment_size: u64,
    /// Number of even ranges of key hashes, each with an index of its own.
    pub shards: u32,
    /// For a pool of a cluster: the seed by which all nodes of the cluster hash keys, so that each key has one shard.
    /// Such a pool keeps a ledger. `None`: its node stands alone.
    pub cluster_seed: Option<u64>,
    /// The platform, as the operator declares it.
    pub platform: DeclaredPlatform,
    /// The promise of the pool.
    pub durability: Durability,
    /// Random bytes that no one can predict. The pool's name, tag key and secret are derived from them.
    pub entropy: [u8; 64],
}
