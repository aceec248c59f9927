//! Random numbers from a seed. Nothing here asks the operating system: the caller supplies the seed.

use rand::SeedableRng as _;
pub use rand::seq::SliceRandom as SliceExt;

/// The generator of the whole project: an algorithm with a name, so that a seed gives the same numbers in every version
/// of the project.
pub type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// The generator that starts from `seed`.
pub fn random_from_seed(seed: u64) -> Random {
    Random::seed_from_u64(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng as _;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b) = (random_from_seed(7), random_from_seed(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
    }
}
