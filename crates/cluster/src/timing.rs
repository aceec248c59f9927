//! How long a lease lasts, on the clock of its holder and on the clock of its grantor.
//!
//! Both clocks run through suspend, and neither is set. Each is declared to run at most `drift_ppm` fast or slow, and to show a
//! time that is at most one tick old. A holder counts from the moment at which it sent the request, the grantor from the moment
//! at which it answered, which is later. The holder counts a little less than the lease, the grantor a little more:
//!
//! ```text
//!   holder    sent |--------- duration - drift - tick ------|
//!   grantor           answered |-------------- duration + drift + tick --------------|
//! ```
//!
//! So the holder's time ends before the grantor's does, whatever the clocks do within what is declared.

use serde::{Deserialize, Serialize};
use stonecast_base::Nanoseconds;

/// The length of a lease, and what is declared of the clocks that it is counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Length, nanoseconds.
    pub duration_ns: Nanoseconds,
    /// How much faster or slower than time a clock runs, at most, in millionths.
    pub drift_ppm: u32,
    /// How old a clock's answer is, at most, nanoseconds.
    pub tick_ns: Nanoseconds,
}

impl Timing {
    /// 10 ms: for cores that belong to the node alone.
    pub const DEDICATED_CORES: Self = Self {
        duration_ns: 10_000_000,
        drift_ppm: 1_000,
        tick_ns: 1_000,
    };

    /// 100 ms: for cores that are shared, and for nodes that sync files.
    pub const SHARED_CORES: Self = Self {
        duration_ns: 100_000_000,
        ..Self::DEDICATED_CORES
    };

    /// By how much two measurements of `length` differ from it at most, ticks aside.
    pub fn drift_of(&self, length: Nanoseconds) -> Nanoseconds {
        let drift = u128::from(length) * u128::from(self.drift_ppm);
        drift.div_ceil(1_000_000) as Nanoseconds
    }

    /// `length` as its holder counts it: less drift and tick.
    pub fn held(&self, length: Nanoseconds) -> Nanoseconds {
        length.saturating_sub(self.drift_of(length) + self.tick_ns)
    }

    /// `length` as its grantor waits for it: drift and tick added.
    pub fn awaited(&self, length: Nanoseconds) -> Nanoseconds {
        length + self.drift_of(length) + self.tick_ns
    }
}
