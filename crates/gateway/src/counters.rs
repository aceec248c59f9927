//! Counts of one thread, written by that thread alone and read by reports.

use std::sync::atomic::{AtomicU64, Ordering};

use stonecast_base::Nanoseconds;
use stonecast_kv::{LATENCY_BUCKETS, Latencies, latency_bucket};

use crate::commands::COMMAND_COUNT;

/// A count that one thread writes.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the count. With one writer, no locked instruction is needed.
    pub fn add(&self, more: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(more),
            Ordering::Relaxed,
        );
    }

    /// Replaces the value of a count that is a state, not a sum.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Keys that commands looked up for their replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Keys that exist.
    pub hits: u64,
    /// Keys that are absent.
    pub misses: u64,
}

impl Lookups {
    /// Adds one key.
    pub fn note(&mut self, is_hit: bool) {
        self.hits += u64::from(is_hit);
        self.misses += u64::from(!is_hit);
    }
}

/// Kinds of operations with a latency of their own.
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
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Other];

    /// The name as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Other => "other",
        }
    }
}

/// Counts of one thread.
#[derive(Debug)]
pub struct Counters {
    /// Commands done, by their place in the table. A command that is refused before it begins is not counted.
    pub commands: [Count; COMMAND_COUNT],
    /// Commands done per second, over the last samples.
    pub commands_per_second: Count,
    /// Keys that a command looked up for its reply and found.
    pub hits: Count,
    /// Keys that a command looked up for its reply and did not find.
    pub misses: Count,
    /// Commands that were answered with an error, unknown ones included.
    pub failures: Count,
    /// Batches: pipelines, or parts of pipelines that were done together.
    pub batches: Count,
    /// Connections accepted.
    pub connections: Count,
    /// Connections refused, because the limit was reached.
    pub connections_refused: Count,
    /// Connections cut off, because they took too few replies, did not finish a request, or found no memory.
    pub connections_cut: Count,
    /// Connections at the moment that are not authenticated.
    pub newcomers: Count,
    /// Newcomers that made way for newer newcomers.
    pub newcomers_cut: Count,
    /// Connections ended, because they broke the protocol.
    pub protocol_errors: Count,
    /// Wrong passwords.
    pub wrong_passwords: Count,
    /// Passwords that waited for their turn, because of wrong passwords before them.
    pub passwords_delayed: Count,
    /// Bytes of requests.
    pub received_bytes: Count,
    /// Bytes of replies.
    pub sent_bytes: Count,
    /// Compare-and-writes that lost to another client.
    pub conflicts: Count,
    /// Times from the arrival of a batch to its replies, by kind of step.
    pub latencies: [Histogram; Kind::ALL.len()],
    /// Rounds of the thread's loop, which show that the thread runs.
    pub rounds: Count,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            commands: std::array::from_fn(|_| Count::default()),
            commands_per_second: Count::default(),
            hits: Count::default(),
            misses: Count::default(),
            failures: Count::default(),
            batches: Count::default(),
            connections: Count::default(),
            connections_refused: Count::default(),
            connections_cut: Count::default(),
            newcomers: Count::default(),
            newcomers_cut: Count::default(),
            protocol_errors: Count::default(),
            wrong_passwords: Count::default(),
            passwords_delayed: Count::default(),
            received_bytes: Count::default(),
            sent_bytes: Count::default(),
            conflicts: Count::default(),
            latencies: Default::default(),
            rounds: Count::default(),
        }
    }
}

impl Counters {
    /// Adds keys that were looked up.
    pub fn add_lookups(&self, lookups: Lookups) {
        self.hits.add(lookups.hits);
        self.misses.add(lookups.misses);
    }

    /// All commands done.
    pub fn all_commands(&self) -> u64 {
        self.commands.iter().map(Count::get).sum()
    }
}

/// Latencies by bucket.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Count; LATENCY_BUCKETS],
    sum_ns: Count,
}

impl Histogram {
    /// Notes that `count` operations took `duration` each.
    pub fn note(&self, duration: Nanoseconds, count: u64) {
        self.buckets[latency_bucket(duration)].add(count);
        self.sum_ns.add(duration.saturating_mul(count));
    }

    /// All latencies that were noted.
    pub fn latencies(&self) -> Latencies {
        Latencies {
            sum_ns: self.sum_ns.get(),
            buckets: std::array::from_fn(|index| self.buckets[index].get()),
        }
    }
}
