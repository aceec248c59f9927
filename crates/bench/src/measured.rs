//! The findings of a measured loop over any store.

use crate::latency::LatencyHistogram;

/// The findings of a measured loop.
#[derive(Clone, Default)]
pub struct Measured {
    /// Operations that ended, failed ones included.
    pub ops: u64,
    /// Operations that failed, or returned a wrong value.
    pub errors: u64,
    /// Wall time from the first operation to the last.
    pub seconds: f64,
    /// CPU time of the client threads, in nanoseconds.
    pub client_cpu_ns: u64,
    /// Latencies of the operations that were timed.
    pub latencies: LatencyHistogram,
    /// Keys that the store's client read by their remembered places.
    pub location_hits: u64,
    /// Keys that the client read otherwise.
    pub location_misses: u64,
}

impl Measured {
    /// Operations per second.
    pub fn ops_per_s(&self) -> f64 {
        if self.seconds > 0.0 {
            self.ops as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// CPU time of the client threads for one operation.
    pub fn client_cpu_ns_per_op(&self) -> f64 {
        if self.ops > 0 {
            self.client_cpu_ns as f64 / self.ops as f64
        } else {
            0.0
        }
    }

    /// Adds the findings of another thread at the same time.
    pub fn join(&mut self, other: &Self) {
        self.ops += other.ops;
        self.errors += other.errors;
        self.seconds = self.seconds.max(other.seconds);
        self.client_cpu_ns += other.client_cpu_ns;
        self.latencies.add(&other.latencies);
        self.location_hits += other.location_hits;
        self.location_misses += other.location_misses;
    }

    /// Adds the findings of the same loop at another time.
    pub fn add_after(&mut self, other: &Self) {
        let seconds = self.seconds + other.seconds;
        self.join(other);
        self.seconds = seconds;
    }
}

/// The median of `values`, the lower one of two middle values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(sorted.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_threads_that_ran_together_add_up_and_their_time_does_not() {
        let mut both = Measured {
            ops: 10,
            errors: 1,
            seconds: 2.0,
            client_cpu_ns: 100,
            ..Measured::default()
        };
        both.join(&Measured {
            ops: 30,
            errors: 0,
            seconds: 1.0,
            client_cpu_ns: 300,
            ..Measured::default()
        });
        assert_eq!((both.ops, both.errors), (40, 1));
        assert_eq!(
            (both.ops_per_s(), both.client_cpu_ns_per_op()),
            (20.0, 10.0)
        );
        both.add_after(&Measured {
            ops: 40,
            seconds: 2.0,
            ..Measured::default()
        });
        assert_eq!(
            both.ops_per_s(),
            20.0,
            "one after the other the times add up, too"
        );
    }

    #[test]
    fn the_median_is_one_of_the_values_and_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(median(&[5.0]), 5.0);
        assert!(median(&[]).is_nan());
    }
}
