//! The length of a lease, on the clock of its holder and on the clock of its grantor.
//!
//! Both clocks go on while their hosts are suspended, and neither clock is set. Each clock is declared to run at most
//! `drift_ppm` fast or slow, and to show a time that is at most one tick old. A holder counts from the moment at which
//! it sent the request. The grantor counts from the moment at which it answered, which is later. The holder counts a
//! little less than the lease, and the grantor a little more:
//!
//! ```text
//!   holder    sent |--------- duration - drift - tick ------|
//!   grantor           answered |-------------- duration + drift + tick --------------|
//! ```
//!
//! The holder's time therefore ends before the grantor's, if both clocks keep their declaration.

use serde::{Deserialize, Serialize};
use stonecast_base::Nanoseconds;

/// The length of a lease, and the declaration of the clocks that count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Length in nanoseconds.
    pub duration_ns: Nanoseconds,
    /// Greatest deviation of a clock's rate, in millionths.
    pub drift_ppm: u32,
    /// Greatest age of the time that a clock shows, in nanoseconds.
    pub tick_ns: Nanoseconds,
}

impl Timing {
    /// 10 ms: for cores that only the node uses.
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

    /// Greatest deviation of two measurements of `length`, not counting ticks.
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
