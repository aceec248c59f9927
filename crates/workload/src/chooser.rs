//! Chooses the next key.

use rand::Rng as _;
use stonecast_base::Random;

use crate::latest::Latest;
use crate::scrambled::ScrambledZipfian;
use crate::zipfian::{THETA, Zipfian};

/// The frequencies with which keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// All keys are equally likely.
    Uniform,
    /// Zipfian 0.99 with the hottest keys spread over the key space, as in the standard YCSB
    /// workloads.
    ScrambledZipfian,
    /// Zipfian 0.99 with key 0 the hottest.
    Zipfian,
    /// Zipfian 0.99 with the newest key the hottest.
    Latest,
}

impl Distribution {
    /// All distributions.
    pub const ALL: [Self; 4] = [
        Self::Uniform,
        Self::ScrambledZipfian,
        Self::Zipfian,
        Self::Latest,
    ];

    /// The name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::ScrambledZipfian => "scrambled-zipfian",
            Self::Zipfian => "zipfian",
            Self::Latest => "latest",
        }
    }
}

/// Draws keys.
#[derive(Clone, Debug)]
pub struct Chooser {
    generator: Generator,
    keys: u64,
}

#[derive(Clone, Debug)]
enum Generator {
    Uniform,
    ScrambledZipfian(ScrambledZipfian),
    Zipfian(Zipfian),
    Latest(Latest),
}

impl Chooser {
    /// A chooser among keys 0 to `keys` - 1.
    pub fn new(distribution: Distribution, keys: u64) -> Self {
        assert!(keys > 0, "there must be a key to choose");
        let generator = match distribution {
            Distribution::ScrambledZipfian => {
                Generator::ScrambledZipfian(ScrambledZipfian::new(keys))
            }
            Distribution::Zipfian => Generator::Zipfian(Zipfian::new(keys, THETA)),
            // A single key is both the newest and the oldest.
            Distribution::Latest if keys > 1 => Generator::Latest(Latest::new(keys - 1)),
            Distribution::Uniform | Distribution::Latest => Generator::Uniform,
        };
        Self { generator, keys }
    }

    /// The next key.
    pub fn next(&self, random: &mut Random) -> u64 {
        match &self.generator {
            // The high half of the product is uneven by less than one in 2^64 / keys.
            Generator::Uniform => {
                ((u128::from(random.next_u64()) * u128::from(self.keys)) >> 64) as u64
            }
            Generator::ScrambledZipfian(generator) => generator.draw(uniform(random)),
            Generator::Zipfian(generator) => generator.draw(uniform(random)),
            Generator::Latest(generator) => generator.draw(uniform(random)),
        }
    }
}

/// A number in `0.0..1.0` with 53 random bits.
pub(crate) fn uniform(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 * (f64::EPSILON / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stonecast_base::random_from_seed;

    #[test]
    fn every_distribution_stays_within_its_keys_even_if_there_is_only_one() {
        for distribution in Distribution::ALL {
            for keys in [1, 2, 3, 1000] {
                let (chooser, mut random) = (Chooser::new(distribution, keys), random_from_seed(3));
                assert!(
                    (0..10_000).all(|_| chooser.next(&mut random) < keys),
                    "{distribution:?} of {keys}"
                );
            }
        }
    }

    #[test]
    fn uniform_draws_give_each_key_its_share() {
        let (chooser, mut random) = (Chooser::new(Distribution::Uniform, 10), random_from_seed(3));
        let mut counts = [0; 10];
        (0..1_000_000).for_each(|_| counts[chooser.next(&mut random) as usize] += 1);
        assert!(
            counts.iter().all(|count| (98_500..101_500).contains(count)),
            "{counts:?}"
        );
    }
}
