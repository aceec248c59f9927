//! The generator of the standard YCSB workloads: zipfian over 10^10 items, hashed onto the keys, so that hot keys are
//! spread over the key space instead of being neighbours.

use crate::key::fnv_hash;
use crate::zipfian::{THETA, Zipfian};

const ITEMS: u64 = 10_000_000_000;
/// The sum for `ITEMS` that YCSB publishes. Computing it takes minutes.
const ZETA_OF_ITEMS: f64 = 26.46902820178302;

/// Draws keys of zipfian popularity, with hot keys spread over the key space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScrambledZipfian {
    zipfian: Zipfian,
    keys: u64,
}

impl ScrambledZipfian {
    /// A generator over `keys` keys, with the constant 0.99.
    pub fn new(keys: u64) -> Self {
        assert!(keys > 0, "a distribution over no keys has no values");
        // There is one item more than YCSB's constant names, as in its class, whose bounds are both inclusive.
        Self {
            zipfian: Zipfian::with_zeta(ITEMS + 1, THETA, ZETA_OF_ITEMS),
            keys,
        }
    }

    /// The key for `uniform`, a number in `0.0..1.0`.
    pub fn draw(&self, uniform: f64) -> u64 {
        fnv_hash(self.zipfian.draw(uniform)) % self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chooser::uniform;
    use stonecast_base::random_from_seed;

    /// Draws of the Java class, each with the number from its random source (as bits).
    #[test]
    fn each_draw_equals_that_of_the_java_class() {
        let million = ScrambledZipfian::new(1_000_000);
        for (bits, expected) in [
            (0x3feba8e81854c77e, 880_959),
            (0x3fe0bfb898eb3630, 527_091),
            (0x3fd11e1605850b04, 157_266),
            (0x3fea74293e80410e, 650_471),
            (0x3fdecf73cf7b7058, 261_740),
            (0x3fefd635cfc10a84, 937_913),
            (0x3fc982da04f3e300, 221_556),
            (0x3fd1d6e170dfbbb8, 138_717),
        ] {
            assert_eq!(million.draw(f64::from_bits(bits)), expected);
        }
    }

    /// The shares in the Java class over 3 * 10^7 draws are 3.78, 1.90 and 1.53 %. Before the hash, the three hottest
    /// items are 0, 1 and 2.
    #[test]
    fn the_hottest_keys_have_the_published_shares() {
        let (scrambled, mut random) = (ScrambledZipfian::new(1_000_000), random_from_seed(1));
        let mut counts = vec![0u64; 1_000_000];
        let draws = 10_000_000;
        for _ in 0..draws {
            counts[scrambled.draw(uniform(&mut random)) as usize] += 1;
        }
        for (item, expected) in [(0, 3.78), (1, 1.90), (2, 1.53)] {
            let found = 100.0 * counts[(fnv_hash(item) % 1_000_000) as usize] as f64 / draws as f64;
            assert!(
                (found - expected).abs() < 0.03,
                "{found} % instead of {expected} %"
            );
        }
    }
}
