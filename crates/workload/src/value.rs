//! Values of random bytes, so that no layer between writer and medium can compress them.

use rand::Rng as _;
use stonecast_base::{Random, random_from_seed};

/// Fills `into` with the initial value of key `number`, which depends on `seed` and `number` alone.
pub fn value_of(seed: u64, number: u64, into: &mut [u8]) {
    // Neighbouring numbers must not start neighbouring generators; the seeding of xoshiro ensures that.
    random_from_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).fill_bytes(into);
}

/// Values for updates, drawn in advance: each is a different piece of one random block.
pub struct ValuePool {
    bytes: Vec<u8>,
    value_size: usize,
    next: usize,
}

/// Bytes of the block beside one value: too large for a level-1 cache shared with the measured code, smaller than level
/// 2.
const POOL_SIZE: usize = 64 << 10;
/// Bytes from one value to the next. Odd, so that values start at every alignment.
const STEP: usize = 61;

impl ValuePool {
    /// Values of `value_size` bytes.
    pub fn new(value_size: usize, random: &mut Random) -> Self {
        let mut bytes = vec![0; POOL_SIZE + value_size];
        random.fill_bytes(&mut bytes);
        Self {
            bytes,
            value_size,
            next: 0,
        }
    }

    /// The next value.
    #[inline]
    pub fn take(&mut self) -> &[u8] {
        let start = self.next;
        self.next = behind(start);
        &self.bytes[start..start + self.value_size]
    }

    /// The next `count` values.
    pub fn take_many(&mut self, count: usize) -> impl Iterator<Item = &[u8]> {
        let first = self.next;
        self.next = (0..count).fold(first, |start, _| behind(start));
        let starts = std::iter::successors(Some(first), |&start| Some(behind(start)));
        starts
            .take(count)
            .map(|start| &self.bytes[start..start + self.value_size])
    }
}

/// Start of the value after the value at `start`.
#[inline]
fn behind(start: usize) -> usize {
    if start + STEP >= POOL_SIZE {
        0
    } else {
        start + STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_depends_on_seed_and_key_alone() {
        let value = |seed, number| {
            let mut bytes = [0; 100];
            value_of(seed, number, &mut bytes);
            bytes
        };
        assert_eq!(value(1, 2), value(1, 2));
        assert_ne!(value(1, 2), value(1, 3));
        assert_ne!(value(1, 2), value(2, 2));
        assert_ne!(value(1, 2)[..8], value(1, 2)[8..16]);
    }

    #[test]
    fn a_pool_gives_values_of_its_size_for_ever_and_neighbours_differ() {
        for size in [0, 1, 100, 100_000] {
            let mut pool = ValuePool::new(size, &mut random_from_seed(1));
            let mut last = Vec::new();
            for _ in 0..5_000 {
                let value = pool.take();
                assert_eq!(value.len(), size);
                assert!(size < 100 || value != last);
                last = value.to_vec();
            }
        }
    }
}
