//! A time that advances with the clock of the process, and follows the wall clock slowly.

use std::cell::Cell;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::Runtime;

/// The time follows the wall clock by one part in 2^11 of the time that passes.
const FOLLOW_SHIFT: u32 = 11;
pub(super) const NS_PER_MS: u64 = 1_000_000;

/// A time that advances.
pub(super) struct RunningTime {
    /// The clock of the process when the time was last advanced.
    seen: Cell<Nanoseconds>,
    /// The time then, in nanoseconds since 1970.
    time: Cell<u64>,
}

impl RunningTime {
    /// A time that begins at the wall clock, or at `least_ms` if that is later.
    pub fn from(least_ms: u64, runtime: &dyn Runtime) -> Self {
        let least = least_ms.saturating_mul(NS_PER_MS);
        Self {
            seen: Cell::new(runtime.now()),
            time: Cell::new(runtime.wall_clock().max(least)),
        }
    }

    /// Lets the time go on. Returns it in milliseconds.
    pub fn advance(&self, runtime: &dyn Runtime) -> u64 {
        let now = runtime.now();
        let passed = now.saturating_sub(self.seen.get());
        // A shorter step leaves no room to follow.
        if passed >= NS_PER_MS / 4 {
            self.seen.set(now);
            let (wall, time) = (runtime.wall_clock(), self.time.get().saturating_add(passed));
            let follow = match mutant!(WallClockBelieved) {
                true => u64::MAX / 2,
                false => passed >> FOLLOW_SHIFT,
            };
            self.time
                .set(wall.clamp(time.saturating_sub(follow), time.saturating_add(follow)));
        }
        self.time.get() / NS_PER_MS
    }
}
