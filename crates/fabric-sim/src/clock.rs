//! Clocks of processes: they run a little fast or slow, are off by some time, and may jump.

use stonecast_base::Nanoseconds;

/// How a process's clock differs from virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalClock {
    /// How far it is ahead.
    pub ahead_ns: u64,
    /// By how many millionths it runs fast; negative: slow. Above -1,000,000.
    pub drift_ppm: i64,
}

const MILLION: i128 = 1_000_000;

impl LocalClock {
    /// What it shows at `time`.
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

    /// When it shows `local` or more for the first time.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the rounding up in `when`: rounded down, a sleeper wakes too early, sees that, and sleeps no time at all.
    #[test]
    fn a_clock_shows_a_moment_when_it_said_it_would() {
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
