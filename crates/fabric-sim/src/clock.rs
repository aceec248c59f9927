//! Clocks of processes. They run slightly fast or slow, are ahead by some time, and may jump.

use std::ops::Range;

use stonecast_base::Nanoseconds;

/// The difference of a process's clock from virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalClock {
    /// Time by which it is ahead.
    pub ahead_ns: u64,
    /// Millionths by which it runs fast; negative if slow. Above -1,000,000.
    pub drift_ppm: i64,
}

const MILLION: i128 = 1_000_000;

impl LocalClock {
    /// The local time at `time`.
    #[inline]
    pub(crate) fn read(self, time: Nanoseconds) -> Nanoseconds {
        if self.drift_ppm == 0 {
            return time + self.ahead_ns;
        }
        let drifted = i128::from(time) * (MILLION + i128::from(self.drift_ppm)) / MILLION;
        u64::try_from(drifted)
            .unwrap_or(u64::MAX)
            .saturating_add(self.ahead_ns)
    }

    /// The first moment at which the clock shows `local` or more.
    #[inline]
    pub(crate) fn when(self, local: Nanoseconds) -> Nanoseconds {
        let local = local.saturating_sub(self.ahead_ns);
        if self.drift_ppm == 0 {
            return local;
        }
        let rate = MILLION + i128::from(self.drift_ppm);
        u64::try_from((i128::from(local) * MILLION + rate - 1) / rate).unwrap_or(u64::MAX)
    }
}

/// When the machine of a clock was suspended. Clocks go on meanwhile, as `CLOCK_BOOTTIME` does.
#[derive(Debug, Default)]
pub(crate) struct Suspensions {
    /// The length of all but the last.
    before: Nanoseconds,
    last: Range<Nanoseconds>,
}

impl Suspensions {
    /// Notes that the machine is suspended from `start` to `end`. Only the part after the end of the last suspension
    /// counts.
    pub fn add(&mut self, start: Nanoseconds, end: Nanoseconds) {
        let start = start.max(self.last.end);
        if start < end {
            self.before = self.until(start);
            self.last = start..end;
        }
    }

    /// The time up to `time` for which the machine was suspended. Time does not go back.
    pub fn until(&self, time: Nanoseconds) -> Nanoseconds {
        self.before + time.min(self.last.end).saturating_sub(self.last.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspensions_that_overlap_count_once() {
        let mut suspensions = Suspensions::default();
        assert_eq!(suspensions.until(5), 0);
        suspensions.add(10, 30);
        assert_eq!(suspensions.until(15), 5);
        suspensions.add(20, 25);
        suspensions.add(20, 50);
        assert_eq!(
            [30, 40, 60].map(|time| suspensions.until(time)),
            [20, 30, 40]
        );
        suspensions.add(90, 100);
        assert_eq!([95, 200].map(|time| suspensions.until(time)), [45, 50]);
    }

    /// Needs the rounding up in `when`: rounded down, a sleeper wakes too early, notices that, and sleeps for no time
    /// at all.
    #[test]
    fn a_clock_shows_a_moment_at_the_predicted_time() {
        for drift_ppm in [0, 1, -1, 50, -50, 999_999, -999_000] {
            for ahead_ns in [0, 1, 1_000_000_007] {
                let clock = LocalClock {
                    ahead_ns,
                    drift_ppm,
                };
                for local in [0, 1, 2, 3, 1_000_003, 123_456_789_012] {
                    let local = local + ahead_ns;
                    let time = clock.when(local);
                    assert!(clock.read(time) >= local, "{clock:?} at {time}");
                    assert!(
                        time == 0 || clock.read(time - 1) < local,
                        "{clock:?} at {time}"
                    );
                }
            }
        }
    }
}
