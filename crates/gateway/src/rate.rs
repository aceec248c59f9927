//! The rate of operations per second, from a count that only grows.

use std::collections::VecDeque;

use stonecast_base::Nanoseconds;

/// Samples of a count, the newest last.
#[derive(Default)]
pub struct Rate {
    samples: VecDeque<(Nanoseconds, u64)>,
}

/// The number of samples in the mean: 1.6 seconds at ten samples a second, as in Redis.
const SAMPLES: usize = 16;

impl Rate {
    /// Notes a sample of the count. Returns the growth of the count per second over the samples that are kept.
    pub fn sample(&mut self, now: Nanoseconds, count: u64) -> u64 {
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, count));
        let (since, before) = self.samples[0];
        let grown = u128::from(count.saturating_sub(before)) * 1_000_000_000;
        let took = u128::from(now.saturating_sub(since));
        grown
            .checked_div(took)
            .map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Nanoseconds = 100_000_000;

    #[test]
    fn the_rate_follows_the_count_within_sixteen_samples() {
        let mut rate = Rate::default();
        assert_eq!(rate.sample(0, 0), 0, "one sample has no rate");
        let steady: Vec<u64> = (1..=20).map(|n| rate.sample(n * TENTH, n * 50)).collect();
        assert_eq!(steady, [500; 20]);
        let fading: Vec<u64> = (21..=37).map(|n| rate.sample(n * TENTH, 20 * 50)).collect();
        assert!(fading.is_sorted_by(|before, after| before >= after));
        assert_eq!((fading[0], fading[16]), (468, 0));
    }

    /// Needs the real time between samples: a busy thread takes them late.
    #[test]
    fn late_samples_do_not_count_double() {
        let mut rate = Rate::default();
        rate.sample(0, 0);
        assert_eq!(rate.sample(10 * TENTH, 1000), 1000);
    }
}
