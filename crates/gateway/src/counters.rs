//! What a thread of the gateway counts: written by that thread alone, read by whoever reports.

use std::sync::atomic::{AtomicU64, Ordering};

use stonecast_base::Nanoseconds;

use crate::commands::COMMAND_COUNT;

/// A count that one thread writes.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds. One writer, so no locked instruction is needed.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Kinds of operations whose latency is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Values were read.
    Read,
    /// Values were written.
    Write,
    /// Everything else.
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Other];

    /// As a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Other => "other",
        }
    }
}

/// Counts of one thread. See the module documentation.
#[derive(Debug)]
pub struct Counters {
    /// Commands done, by their place in the table.
    pub commands: [Count; COMMAND_COUNT],
    /// Commands that were answered with an error, unknown ones included.
    pub failures: Count,
    /// Batches: pipelines, or what fitted of them.
    pub batches: Count,
    /// Connections accepted.
    pub connections: Count,
    /// Connections refused, because there were too many.
    pub connections_refused: Count,
    /// Connections cut off, because they took no replies or did not finish a request.
    pub connections_cut: Count,
    /// Connections ended, because they broke the protocol.
    pub protocol_errors: Count,
    /// Wrong passwords.
    pub wrong_passwords: Count,
    /// Bytes of requests.
    pub received_bytes: Count,
    /// Bytes of replies.
    pub sent_bytes: Count,
    /// Keys read from the store.
    pub keys_read: Count,
    /// Values written to the store.
    pub puts: Count,
    /// Keys deleted from the store.
    pub deletes: Count,
    /// Compare-and-writes that somebody else was faster than.
    pub conflicts: Count,
    /// Round trips of the fabric: two for reads that go together, one for each write.
    pub round_trips: Count,
    /// From the arrival of a batch to its replies, by kind of step.
    pub latencies: [Histogram; Kind::ALL.len()],
    /// Rounds of the thread's loop, to see that it is alive.
    pub rounds: Count,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            commands: std::array::from_fn(|_| Count::default()),
            failures: Count::default(),
            batches: Count::default(),
            connections: Count::default(),
            connections_refused: Count::default(),
            connections_cut: Count::default(),
            protocol_errors: Count::default(),
            wrong_passwords: Count::default(),
            received_bytes: Count::default(),
            sent_bytes: Count::default(),
            keys_read: Count::default(),
            puts: Count::default(),
            deletes: Count::default(),
            conflicts: Count::default(),
            round_trips: Count::default(),
            latencies: Default::default(),
            rounds: Count::default(),
        }
    }
}

/// Buckets of a histogram: up to 2 microseconds, up to 4, and so on to 16 seconds; and one for what took longer.
pub const BUCKETS: usize = 25;
const SMALLEST_NS: Nanoseconds = 2_000;

/// How long things took.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Count; BUCKETS],
    sum_ns: Count,
}

impl Histogram {
    /// Notes that `count` things took so long.
    pub fn note(&self, duration: Nanoseconds, count: u64) {
        self.buckets[bucket_of(duration)].add(count);
        self.sum_ns.add(duration.saturating_mul(count));
    }

    /// Count of each bucket.
    pub fn counts(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|index| self.buckets[index].get())
    }

    /// Sum of all durations.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.get()
    }
}

fn bucket_of(duration: Nanoseconds) -> usize {
    let steps = duration.saturating_sub(1) / SMALLEST_NS;
    ((u64::BITS - steps.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// Upper bound of a bucket in seconds; infinite for the last.
pub fn bucket_bound_seconds(index: usize) -> f64 {
    if index == BUCKETS - 1 { f64::INFINITY } else { (SMALLEST_NS << index) as f64 / 1e9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_at_or_below_the_bound_of_its_bucket_and_above_the_one_before() {
        for duration in [0, 1, 1_999, 2_000, 2_001, 4_000, 4_001, 1_000_000, 16_777_216_000, 60_000_000_000, u64::MAX] {
            let index = bucket_of(duration);
            let seconds = duration as f64 / 1e9;
            assert!(seconds <= bucket_bound_seconds(index), "{duration}");
            assert!(index == 0 || seconds > bucket_bound_seconds(index - 1), "{duration}");
        }
    }
}
