//! Pauses between attempts to reach a server: longer each time, and never in step with those of other clients.

use std::time::Duration;

use super::handshake::random_bytes;

/// Retries of a connection while no server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// Pause after the first failure.
    pub first: Duration,
    /// Longest pause.
    pub longest: Duration,
    /// Time after the first attempt after which no further attempt is made.
    pub patience: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(20),
            longest: Duration::from_secs(2),
            patience: Duration::from_secs(3),
        }
    }
}

impl BackOff {
    /// The pause after `failures` failures in a row. The pause doubles from [`BackOff::first`] up to
    /// [`BackOff::longest`], less a random part of up to a half, so that many clients that lost the same server do not
    /// come back at once.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        let doubled = self
            .first
            .saturating_mul(1 << failures.saturating_sub(1).min(20))
            .min(self.longest);
        let draw = u16::from_le_bytes(random_bytes());
        doubled - doubled.mul_f64(f64::from(draw) / f64::from(u16::MAX) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_never_shorter_than_half() {
        let back_off = BackOff {
            first: Duration::from_millis(10),
            longest: Duration::from_millis(300),
            ..BackOff::default()
        };
        for (failures, whole) in [(1, 10), (2, 20), (3, 40), (6, 300), (100, 300)] {
            for _ in 0..50 {
                let pause = back_off.pause(failures);
                let whole = Duration::from_millis(whole);
                assert!(
                    pause <= whole && pause >= whole / 2,
                    "{failures} failures: {pause:?}"
                );
            }
        }
    }

    #[test]
    fn two_clients_do_not_come_back_in_step() {
        let back_off = BackOff::default();
        let pauses: Vec<_> = (0..20).map(|_| back_off.pause(5)).collect();
        assert!(pauses.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
