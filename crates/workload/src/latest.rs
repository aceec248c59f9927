//! YCSB's skewed latest generator: the newest key is the hottest.

use crate::zipfian::{THETA, Zipfian};

/// Draws recent keys more often. Keys are numbered in the order of their insertion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latest {
    zipfian: Zipfian,
    first_newest: u64,
    newest: u64,
}

impl Latest {
    /// `newest` is the number of the newest key, not 0.
    pub fn new(newest: u64) -> Self {
        Self {
            zipfian: Zipfian::new(newest, THETA),
            first_newest: newest,
            newest,
        }
    }

    /// Notes that keys up to `newest` were inserted. Costs one power for each.
    pub fn advance(&mut self, newest: u64) {
        assert!(
            newest >= self.newest,
            "the number of the newest key never shrinks"
        );
        self.zipfian.grow(newest, self.first_newest, THETA);
        self.newest = newest;
    }

    /// The key for `uniform`, a number in `0.0..1.0`: `newest`, or less often an earlier key. As in YCSB, key 0 is
    /// never drawn.
    pub fn draw(&self, uniform: f64) -> u64 {
        self.newest - self.zipfian.draw(uniform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u64; 5] = [
        0x3feba8e81854c77e,
        0x3fe0bfb898eb3630,
        0x3fd11e1605850b04,
        0x3fea74293e80410e,
        0x3fe1fd4c3a0b3c76,
    ];

    /// Draws of the Java class over 1000 keys, after 500 inserts, after 500 more inserts.
    #[test]
    fn each_draw_equals_that_of_the_java_class_even_after_inserts() {
        let mut latest = Latest::new(999);
        for (newest, expected) in [
            (999, [639, 973, 996, 729, 964]),
            (1499, [952, 1458, 1494, 1086, 1443]),
            (1999, [1263, 1942, 1991, 1442, 1923]),
        ] {
            latest.advance(newest);
            assert_eq!(
                NUMBERS.map(|bits| latest.draw(f64::from_bits(bits))),
                expected
            );
        }
    }

    #[test]
    fn each_draw_over_a_million_keys_equals_that_of_the_java_class() {
        let latest = Latest::new(999_999);
        assert_eq!(
            NUMBERS.map(|bits| latest.draw(f64::from_bits(bits))),
            [845_233, 998_788, 999_972, 908_420, 997_872]
        );
    }
}
