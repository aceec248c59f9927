//! A rate: some turns at once, and then one turn in each interval.
//!
//! Virtual scheduling keeps only the end of the last turn that was given out. A turn that is given back moves that end,
//! so abandoned turns cost other guesses no time.

use stonecast_base::Nanoseconds;

/// A rate: some turns at once, and then one turn in each interval.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval: Nanoseconds,
    /// The time by which the turns that were given out may run ahead of the clock before the next turn has to wait.
    ahead_max: Nanoseconds,
    /// The time at which all turns that were given out are used up, at one turn in each interval.
    used_up_at: Nanoseconds,
}

impl Pace {
    /// `burst` turns at once, then `per_second`.
    pub const fn new(burst: u64, per_second: u64) -> Self {
        let interval = 1_000_000_000 / per_second;
        Self {
            interval,
            ahead_max: interval * burst,
            used_up_at: 0,
        }
    }

    /// Gives out a turn, and returns the time of the turn.
    pub fn take(&mut self, now: Nanoseconds) -> Nanoseconds {
        self.used_up_at = self.used_up_at.max(now) + self.interval;
        now.max(self.used_up_at.saturating_sub(self.ahead_max))
    }

    /// Takes back a turn that was not used.
    pub fn give_back(&mut self) {
        self.used_up_at = self.used_up_at.saturating_sub(self.interval);
    }

    /// Returns whether the pace is as if no turn had been given out.
    pub fn is_fresh(&self, now: Nanoseconds) -> bool {
        self.used_up_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanoseconds = 1_000_000_000;

    #[test]
    fn a_burst_has_its_turns_at_once_and_the_rest_at_the_rate() {
        let mut pace = Pace::new(3, 10);
        let turns: Vec<Nanoseconds> = (0..5).map(|_| pace.take(SECOND)).collect();
        assert_eq!(
            turns,
            [
                SECOND,
                SECOND,
                SECOND,
                SECOND + SECOND / 10,
                SECOND + SECOND / 5
            ]
        );
        assert!(!pace.is_fresh(SECOND + SECOND / 2 - 1) && pace.is_fresh(SECOND + SECOND / 2));
        assert_eq!(pace.take(9 * SECOND), 9 * SECOND, "rest makes up for it");
    }

    #[test]
    fn a_turn_that_is_given_back_goes_to_the_next_guess() {
        let mut pace = Pace::new(1, 10);
        assert_eq!(pace.take(0), 0);
        let second = pace.take(0);
        (0..1000).for_each(|_| {
            pace.take(0);
        });
        (0..1000).for_each(|_| pace.give_back());
        assert_eq!(pace.take(0), second + SECOND / 10);
    }
}
