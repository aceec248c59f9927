//! Latencies: a histogram, and the choice of the operations to time.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// The longest latency that the histogram distinguishes.
const LONGEST_NS: u64 = 600_000_000_000;
/// The number of digits that a recorded latency keeps.
const DIGITS: u8 = 3;
/// The largest share of an operation's time that a look at the clock may take.
const CLOCK_SHARE_MAX: f64 = 0.01;

/// A histogram of nanoseconds.
#[derive(Clone)]
pub struct LatencyHistogram {
    histogram: Histogram<u64>,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .expect("the bounds are constants that are in order");
        Self { histogram }
    }
}

impl LatencyHistogram {
    /// Adds a latency.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.histogram
            .saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all histograms have the same bounds");
    }

    /// The number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that `share` (0.5, 0.99, ...) of the operations did not exceed; 0 if none was recorded.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
    }
}

/// Times every n-th operation: two looks at the clock cost as much as a third of a one-sided read, so timing each would
/// measure the clock.
pub struct Stopwatch {
    interval: u32,
    countdown: u32,
    latencies: LatencyHistogram,
}

impl Stopwatch {
    /// Times one in `interval` operations.
    pub fn every(interval: u32) -> Self {
        assert!(interval > 0, "an interval has an operation");
        Self {
            interval,
            countdown: interval,
            latencies: LatencyHistogram::default(),
        }
    }

    /// Begins an operation. The caller hands the answer to `end`.
    #[inline]
    pub fn begin(&mut self) -> Option<Instant> {
        self.countdown -= 1;
        if self.countdown > 0 {
            return None;
        }
        self.countdown = self.interval;
        Some(Instant::now())
    }

    /// Ends the operation.
    #[inline]
    pub fn end(&mut self, began: Option<Instant>) {
        if let Some(began) = began {
            self.latencies.record(began.elapsed());
        }
    }

    /// The recorded latencies.
    pub fn into_latencies(self) -> LatencyHistogram {
        self.latencies
    }
}

/// Returns the interval between timed operations at which the clock adds at most 1 % to operations of `operation_ns`.
///
/// The interval is odd, so that it does not go in step with a window of operations in flight.
pub fn timing_interval(operation_ns: f64, look_ns: f64) -> u32 {
    let looks = 2.0 * look_ns / (CLOCK_SHARE_MAX * operation_ns.max(1.0));
    (looks.clamp(1.0, 10_001.0).ceil() as u32) | 1
}

/// The cost of one look at the clock on this machine, in nanoseconds.
pub fn clock_look_ns() -> f64 {
    const LOOKS: u32 = 10_000;
    let start = Instant::now();
    let last = (0..LOOKS).fold(start, |_, _| std::hint::black_box(Instant::now()));
    last.duration_since(start).as_nanos() as f64 / f64::from(LOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_recorded_latencies_to_three_digits() {
        let mut latencies = LatencyHistogram::default();
        (1..=1000).for_each(|i| latencies.record(Duration::from_nanos(i * 1000)));
        let mut other = LatencyHistogram::default();
        other.record(Duration::from_secs(3600));
        other.record(Duration::ZERO);
        latencies.add(&other);
        assert_eq!(latencies.count(), 1002);
        for (share, expected) in [
            (0.5, 500_000.0),
            (0.99, 991_000.0),
            (0.9999, LONGEST_NS as f64),
        ] {
            let found = latencies.quantile_ns(share) as f64;
            assert!(
                (found / expected - 1.0).abs() < 0.002,
                "{share}: {found} instead of {expected}"
            );
        }
        assert_eq!(LatencyHistogram::default().quantile_ns(0.5), 0);
    }

    #[test]
    fn a_stopwatch_times_one_operation_of_each_interval() {
        for (interval, expected) in [(1, 1000), (3, 333), (61, 16)] {
            let mut stopwatch = Stopwatch::every(interval);
            for _ in 0..1000 {
                let began = stopwatch.begin();
                stopwatch.end(began);
            }
            assert_eq!(stopwatch.into_latencies().count(), expected);
        }
    }

    #[test]
    fn the_clock_costs_at_most_a_hundredth_and_all_slow_operations_are_timed() {
        assert_eq!(timing_interval(1_000_000.0, 30.0), 1);
        for operation_ns in [0.0, 20.0, 150.0, 400.0, 3000.0] {
            let interval = timing_interval(operation_ns, 30.0);
            assert!(
                2.0 * 30.0 / f64::from(interval) <= 0.01 * operation_ns.max(1.0),
                "{operation_ns}: {interval}"
            );
            assert_eq!(interval % 2, 1);
        }
        assert!(clock_look_ns() > 0.0);
    }
}
