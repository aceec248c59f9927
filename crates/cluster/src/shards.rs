//! Shards: even ranges of key hashes.

use serde::{Deserialize, Serialize};

/// Key hashes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashRange {
    /// The lowest hash.
    pub first: u64,
    /// The highest hash.
    pub last: u64,
}

impl HashRange {
    /// Range `index` of `count` ranges that split all hashes evenly: the sizes of two ranges differ by one at most.
    ///
    /// ```
    /// # use stonecast_cluster::HashRange;
    /// assert_eq!(HashRange::even(0, 2), HashRange { first: 0, last: u64::MAX / 2 });
    /// assert_eq!(HashRange::even(1, 2), HashRange { first: u64::MAX / 2 + 1, last: u64::MAX });
    /// ```
    ///
    /// # Panics
    ///
    /// Unless `index` is below `count`.
    pub fn even(index: u32, count: u32) -> Self {
        assert!(index < count, "shard {index} is one of {count}");
        // The first hash that `even_index` gives to the shard: the least h with floor(h * count / 2^64) = index.
        let start = |index: u32| (u128::from(index) << 64).div_ceil(u128::from(count));
        Self {
            first: start(index) as u64,
            last: (start(index + 1) - 1) as u64,
        }
    }

    /// Returns the index of the range to which `hash` belongs, of `count` even ranges: one multiplication, no search.
    #[inline]
    pub fn even_index(hash: u64, count: u32) -> u32 {
        ((u128::from(hash) * u128::from(count)) >> 64) as u32
    }

    /// Returns whether `hash` is in the range.
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        (self.first..=self.last).contains(&hash)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_hash_belongs_to_the_range_that_its_index_names(hash: u64, count in 1u32..5000) {
            let index = HashRange::even_index(hash, count);
            prop_assert!(HashRange::even(index, count).contains(hash));
        }

        #[test]
        fn even_ranges_follow_each_other_without_a_gap(count in 1u32..5000) {
            prop_assert_eq!(HashRange::even(0, count).first, 0);
            prop_assert_eq!(HashRange::even(count - 1, count).last, u64::MAX);
            for index in 1..count {
                prop_assert_eq!(HashRange::even(index, count).first, HashRange::even(index - 1, count).last + 1);
            }
        }
    }
}
