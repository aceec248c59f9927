//! The way from a key to its shard, and to its bucket there: both come from one hash of the key,
//! and the shard takes the top of the hash.
//!
//! ```text
//!   hash * shards =  | shard | hash in the shard |      128 bits: even ranges of hashes, one multiplication
//!                      high     low: again even over all numbers, so its top bits choose the bucket
//! ```
//!
//! The fingerprint stays the low bits of the hash itself: a product with a power of two ends in zeros. With one shard,
//! the hash in the shard is the hash.

use stonecast_base::hash;
use stonecast_log::Form;

use super::ChunkName;

/// Bits of the fingerprint of a key, in its index word.
pub(super) const FINGERPRINT_BITS: u32 = 16;
/// Bits of the hash itself that the hash in a shard keeps: those of the fingerprint.
const KEPT: u64 = (1 << FINGERPRINT_BITS) - 1;

/// Difference between the seed of the hashes of chunks and that of other keys.
const CHUNKS: u64 = 0x7069_6563_655f_6f66;

/// The division of a pool's keys among its shards. Server and clients share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyMap {
    /// Seed of the hash of a key.
    pub seed: u64,
    /// Number of shards.
    pub shards: u32,
}

/// The way to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Number of the key's shard.
    pub shard: u32,
    /// The key's hash in the index of that shard.
    pub hash: KeyHash,
}

/// The hash of a key in one index: top bits choose the bucket, low bits are the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(pub u64);

impl KeyMap {
    /// The way to `key`. XXH3 with a secret seed: without the seed, no client can guess shards or buckets.
    #[inline(always)]
    pub fn route(&self, key: &[u8]) -> Route {
        self.route_of_hash(hash::xxh3_64(self.seed, key))
    }

    /// The way to the key of a record of this form. A chunk lies in the shard of the key whose value it is a part of,
    /// and the hashes of chunks have a seed of their own.
    #[inline]
    pub fn route_of(&self, form: Form, key: &[u8]) -> Route {
        let named = match form {
            Form::Chunk => ChunkName::read(key),
            Form::Whole | Form::Head => None,
        };
        match named {
            None => self.route(key),
            Some(name) => Route {
                shard: self.whole_of(name).shard,
                hash: KeyHash(hash::xxh3_64(self.seed ^ CHUNKS, key)),
            },
        }
    }

    /// The way to the key whose value the chunk is a part of.
    pub fn whole_of(&self, name: ChunkName) -> Route {
        self.route_of_hash(name.whole)
    }

    /// The hash of a key in all shards together.
    pub fn whole_hash(&self, key: &[u8]) -> u64 {
        hash::xxh3_64(self.seed, key)
    }

    #[inline(always)]
    fn route_of_hash(&self, hash: u64) -> Route {
        let product = u128::from(hash) * u128::from(self.shards);
        Route {
            shard: (product >> 64) as u32,
            hash: KeyHash(product as u64 & !KEPT | hash & KEPT),
        }
    }
}

impl KeyHash {
    /// The home bucket in an index of 2^`bits` buckets. The top bits choose the bucket, so that an index twice as large
    /// splits each bucket into two neighbours.
    pub fn bucket(self, bits: u32) -> u64 {
        // Two steps, since a shift by 64 bits overflows.
        self.0 >> 1 >> (63 - bits)
    }

    #[inline(always)]
    pub(super) fn fingerprint(self) -> u16 {
        self.0 as u16
    }
}

#[cfg(test)]
mod tests {
    use stonecast_cluster::HashRange;

    use super::*;

    #[test]
    fn the_shard_of_a_key_is_the_one_that_the_configuration_of_a_cluster_names() {
        for shards in [1, 2, 7, 1000, 1024] {
            let keys = KeyMap { seed: 5, shards };
            for number in 0..2000u32 {
                let key = number.to_le_bytes();
                let hash = hash::xxh3_64(5, &key);
                assert_eq!(keys.route(&key).shard, HashRange::even_index(hash, shards));
            }
        }
    }

    #[test]
    fn the_only_shard_has_the_hash_itself() {
        let keys = KeyMap { seed: 9, shards: 1 };
        let route = keys.route(b"key");
        assert_eq!((route.shard, route.hash.0), (0, hash::xxh3_64(9, b"key")));
    }

    /// Fails if the bucket is chosen by the bits that have chosen the shard: all keys of a shard would share a few
    /// buckets.
    #[test]
    fn the_keys_of_a_shard_fill_its_buckets_and_fingerprints_evenly() {
        for shards in [7, 1024] {
            let keys = KeyMap { seed: 3, shards };
            let (mut buckets, mut fingerprints) = ([0; 16], [0; 16]);
            let mut count = 0;
            for number in 0..u32::MAX {
                let Route { shard, hash } = keys.route(&number.to_le_bytes());
                if shard == shards / 2 {
                    buckets[hash.bucket(4) as usize] += 1;
                    fingerprints[usize::from(hash.fingerprint() & 15)] += 1;
                    count += 1;
                }
                if count == 1600 {
                    break;
                }
            }
            for found in buckets.into_iter().chain(fingerprints) {
                assert!(
                    (50..=150).contains(&found),
                    "{shards} shards: {found} of 100"
                );
            }
        }
    }
}
