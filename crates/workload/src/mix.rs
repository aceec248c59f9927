//! The shares of reads and updates.

use rand::Rng as _;
use stonecast_base::Random;

/// A mix of operations, under YCSB's letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mix {
    /// Workload A: half reads, half updates.
    A,
    /// Workload B: 95 % reads, 5 % updates.
    B,
    /// Workload C: only reads.
    C,
    /// Only updates; not one of YCSB's letters.
    UpdateOnly,
}

impl Mix {
    /// All mixes.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::UpdateOnly];

    /// The name in output and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::UpdateOnly => "update-only",
        }
    }

    /// Percentage of updates.
    pub const fn updates_percent(self) -> u32 {
        match self {
            Self::A => 50,
            Self::B => 5,
            Self::C => 0,
            Self::UpdateOnly => 100,
        }
    }

    /// Whether the next operation is an update.
    pub fn is_update(self, random: &mut Random) -> bool {
        ((u64::from(random.next_u32()) * 100) >> 32) < u64::from(self.updates_percent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stonecast_base::random_from_seed;

    #[test]
    fn each_mix_has_its_share_of_updates() {
        for mix in Mix::ALL {
            let mut random = random_from_seed(5);
            let updates = (0..1_000_000)
                .filter(|_| mix.is_update(&mut random))
                .count() as f64
                / 10_000.0;
            let expected = f64::from(mix.updates_percent());
            // The mixes with all updates or none are exact.
            let slack = if matches!(mix, Mix::A | Mix::B) {
                0.2
            } else {
                0.0
            };
            assert!((updates - expected).abs() <= slack, "{mix:?}: {updates} %");
        }
    }
}
