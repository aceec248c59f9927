//! A bound of the present time whose reading does not wait for earlier loads.
//!
//! ```text
//!   ticks since the sample < window    the bound of the sample: no system clock is read
//!   else                               the clock is read, and a new sample taken
//! ```
//!
//! [`boot_time`] orders its reading behind all earlier loads, so the processor can't begin the loads of the next GET
//! before those of the present one have ended. The processor's counter of time stamps, read alone, has no order. Its
//! value may be older than the end of earlier loads, but only by the time for which an instruction is under way: an
//! interrupt ends instructions that have not retired, and retirement is in order.
//!
//! The kernel decides whether the counter can be trusted. If the counter is not the kernel's own clock source, every
//! bound is a reading of the clock. A sample counts only if the counter made at least a tick in a nanosecond since the
//! sample before.

use std::cell::Cell;

use stonecast_base::Nanoseconds;
use stonecast_fabric::boot_time;
use stonecast_media::time_stamp;

/// Ticks for which a sample holds: at most 100 us, since a trusted counter makes at least a tick in a nanosecond.
const WINDOW_TICKS: u64 = 100_000;
const WINDOW_NS: Nanoseconds = 100_000;
/// More than the longest time for which an instruction is under way.
const UNDER_WAY_NS: Nanoseconds = 900_000;
/// The file in which the kernel names its clock source.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The bounds that one thread has read.
#[derive(Debug)]
pub(crate) struct TimeBound {
    is_trusted: bool,
    sample: Cell<Sample>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// The counter, read before the clock.
    ticks: u64,
    /// The clock.
    time: Nanoseconds,
    /// Ticks for which the bound of this sample holds; 0: the counter was slower than the clock.
    window: u64,
}

impl TimeBound {
    /// No sample yet. Asks the kernel for its clock source.
    pub fn new() -> Self {
        let source = std::fs::read_to_string(CLOCK_SOURCE).unwrap_or_default();
        Self {
            is_trusted: source.trim() == "tsc",
            sample: Cell::default(),
        }
    }

    /// A time at or after the end of every earlier load of this thread, at most 1 ms ahead of [`boot_time`].
    #[inline]
    pub fn read(&self) -> Nanoseconds {
        if !self.is_trusted {
            return boot_time();
        }
        let ticks = time_stamp();
        self.sample
            .get()
            .bound(ticks)
            .unwrap_or_else(|| self.renew(ticks, boot_time()))
    }

    /// Takes a sample: `ticks` was read before `now`.
    #[cold]
    fn renew(&self, ticks: u64, now: Nanoseconds) -> Nanoseconds {
        self.sample.set(self.sample.get().next(ticks, now));
        now
    }
}

impl Sample {
    #[inline]
    fn bound(self, ticks: u64) -> Option<Nanoseconds> {
        let is_in_window = ticks.wrapping_sub(self.ticks) < self.window;
        is_in_window.then_some(self.time + WINDOW_NS + UNDER_WAY_NS)
    }

    fn next(self, ticks: u64, time: Nanoseconds) -> Self {
        let passed = time.saturating_sub(self.time);
        let is_fast = ticks
            .checked_sub(self.ticks)
            .is_some_and(|passed_ticks| passed_ticks >= passed);
        let window = if is_fast { WINDOW_TICKS } else { 0 };
        Self {
            ticks,
            time,
            window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_never_before_the_clock_and_at_most_a_millisecond_ahead() {
        let bound = TimeBound::new();
        let end = boot_time() + 20_000_000;
        let mut before = 0;
        while before < end {
            before = boot_time();
            let read = bound.read();
            assert!(read >= before, "{read} is before {before}");
            let most = boot_time() + WINDOW_NS + UNDER_WAY_NS;
            assert!(read <= most, "{read} is after {most}");
        }
    }

    #[test]
    fn the_first_sample_gives_no_bound_and_the_second_does() {
        let first = Sample::default().next(5_000, 1_000_000);
        assert_eq!(first.bound(5_001), None);
        let second = first.next(9_000, 1_002_000);
        assert_eq!(second.bound(9_000 + WINDOW_TICKS - 1), Some(2_002_000));
        assert_eq!(second.bound(9_000 + WINDOW_TICKS), None);
        assert_eq!(second.bound(8_999), None, "the counter went back");
    }

    #[test]
    fn a_counter_that_is_slower_than_the_clock_gives_no_bound() {
        let first = Sample::default().next(5_000, 1_000_000);
        let stood_still = first.next(6_000, 1_002_000);
        assert_eq!(stood_still.bound(6_001), None);
        let goes_on = stood_still.next(10_000, 1_004_000);
        assert!(goes_on.bound(10_001).is_some());
        assert_eq!(goes_on.next(9_999, 1_004_000).bound(9_999), None);
    }
}
