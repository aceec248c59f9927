//! The zipfian generator of Gray et al., *Quickly Generating Billion-Record Synthetic Databases* (1994), as implemented
//! in YCSB.
//!
//! The distribution is not exactly zipfian: only the two hottest items have their exact share, and the rest follow a
//! power curve that approximates it (the third item gets 2.62 % instead of 2.19 % of a million items). Every published
//! YCSB figure has that skew, so the figures of Stonecast must have it, too.

use libm::pow;

/// The constant of the YCSB workloads.
pub const THETA: f64 = 0.99;

/// Draws items numbered from 0, the hottest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipfian {
    items: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    /// Below this value, scaled by zeta, the draw is item 1.
    second: f64,
}

impl Zipfian {
    /// A generator of `items` items with constant `theta`. Sums up `items` powers.
    pub fn new(items: u64, theta: f64) -> Self {
        Self::with_zeta(items, theta, zeta(items, theta))
    }

    /// A generator of items whose zeta is known.
    pub fn with_zeta(items: u64, theta: f64, zeta_of_items: f64) -> Self {
        assert!(items > 0, "a distribution over no items has no values");
        let second = 1.0 + pow(0.5, theta);
        let eta = eta(items, theta, zeta_of_items);
        Self {
            items: items as f64,
            zeta: zeta_of_items,
            alpha: 1.0 / (1.0 - theta),
            eta,
            second,
        }
    }

    /// The item for `uniform`, a number in `0.0..1.0`.
    pub fn draw(&self, uniform: f64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1;
        }
        // The Java class returns one item too many if the power rounds to 1.
        let item = self.items * pow(self.eta * uniform - self.eta + 1.0, self.alpha);
        (item as u64).min(self.items as u64 - 1)
    }

    /// Adds items, for [`crate::Latest`]. Like YCSB, the function leaves `eta` at the initial number of items.
    pub(crate) fn grow(&mut self, items: u64, first_items: u64, theta: f64) {
        self.zeta = add_terms(self.zeta, self.items as u64, items, theta);
        self.eta = eta(first_items, theta, self.zeta);
        self.items = items as f64;
    }
}

fn eta(items: u64, theta: f64, zeta_of_items: f64) -> f64 {
    (1.0 - pow(2.0 / items as f64, 1.0 - theta)) / (1.0 - zeta(2, theta) / zeta_of_items)
}

/// The sum of 1/i^`theta` for i from 1 to `items`.
pub fn zeta(items: u64, theta: f64) -> f64 {
    add_terms(0.0, 0, items, theta)
}

/// `sum` and the terms of zeta after the first `from`, up to `to`.
fn add_terms(sum: f64, from: u64, to: u64, theta: f64) -> f64 {
    (from..to).fold(sum, |sum, i| sum + 1.0 / pow((i + 1) as f64, theta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chooser::uniform;
    use stonecast_base::random_from_seed;

    /// `ZipfianGenerator.zetastatic`.
    #[test]
    fn zeta_equals_the_result_of_the_java_class() {
        for (items, expected) in [
            (1, 1.0),
            (2, 1.5034777750283594),
            (10, 2.9561075165103636),
            (1000, 7.728953217284729),
            (100_000, 12.778338062551246),
            (1_000_000, 15.391849746037371),
        ] {
            let found = zeta(items, THETA);
            assert!(
                (found - expected).abs() < 1e-12 * expected,
                "zeta({items}) = {found}, expected {expected}"
            );
        }
    }

    /// Draws of the Java class, each with the number from its random source (as bits).
    #[test]
    fn each_draw_equals_that_of_the_java_class() {
        let million = Zipfian::new(1_000_000, THETA);
        for (bits, expected) in [
            (0x3feba8e81854c77e, 154_766),
            (0x3fe0bfb898eb3630, 1_211),
            (0x3fd11e1605850b04, 27),
            (0x3fea74293e80410e, 91_579),
            (0x3fe1fd4c3a0b3c76, 2_127),
            (0x3fdecf73cf7b7058, 655),
            (0x3fefd635cfc10a84, 932_813),
            (0x3fc982da04f3e300, 9),
            (0x3fedf7bac56643b2, 419_224),
        ] {
            assert_eq!(million.draw(f64::from_bits(bits)), expected);
        }
        let thousand = Zipfian::new(1000, 0.5);
        for (bits, expected) in [
            (0x3feba8e81854c77e, 751),
            (0x3fe0bfb898eb3630, 282),
            (0x3fd11e1605850b04, 78),
        ] {
            assert_eq!(thousand.draw(f64::from_bits(bits)), expected);
        }
    }

    #[test]
    fn the_smallest_and_the_largest_number_draw_the_first_and_the_last_item() {
        let million = Zipfian::new(1_000_000, THETA);
        assert_eq!(million.draw(0.0), 0);
        assert_eq!(million.draw(1.0 - f64::EPSILON / 2.0), 999_999);
        let one = Zipfian::new(1, THETA);
        assert_eq!((one.draw(0.0), one.draw(1.0 - f64::EPSILON / 2.0)), (0, 0));
    }

    /// The shares in the Java class over 3 * 10^7 draws are 6.49, 3.27, 2.62 and 1.86 %.
    #[test]
    fn the_hottest_items_have_the_published_shares() {
        let (zipfian, mut random) = (Zipfian::new(1_000_000, THETA), random_from_seed(1));
        let mut counts = [0u64; 4];
        let draws = 10_000_000;
        for _ in 0..draws {
            if let Some(count) = counts.get_mut(zipfian.draw(uniform(&mut random)) as usize) {
                *count += 1;
            }
        }
        for (count, expected) in counts.iter().zip([6.49, 3.27, 2.62, 1.86]) {
            let found = 100.0 * *count as f64 / draws as f64;
            assert!(
                (found - expected).abs() < 0.03,
                "{found} % instead of {expected} %"
            );
        }
    }
}
