//! The server's time, with which the expiry of keys is compared.
//!
//! ```text
//!   wall clock  --followed, no faster than 1 in 2048--> time --> min --> now: what everything is judged by
//!   clock       --goes on at its pace----------------^           ^
//!                                                          mark, durable
//! ```
//!
//! The time goes on with the clock of the process, which nobody sets, and follows the wall clock only slowly: clients
//! carry the time forward by their own clocks, and must not fall behind by more than the declared drift. The mark lies
//! in the pool. The server's time never exceeds the mark, and after a restart begins at the mark or above. The time is
//! thus the same or later for whoever asks later, also after a crash and with a wall clock that was set back.
//!
//! The mark is raised ahead, by [`STEP_MS`], and only when somebody asks: a server that keeps no expiry writes nothing.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::Runtime;
use stonecast_log::Expiry;
use stonecast_media::{MediaError, Pool, TimeMark};

/// Time by which the mark is raised ahead. After a crash, keys expire that much too early at most, and the header of
/// the pool is written once in half that time at most.
const STEP_MS: u64 = 10_000;
/// The time follows the wall clock by one part in 2^11 of the time that passes.
const FOLLOW_SHIFT: u32 = 11;
const NS_PER_MS: u64 = 1_000_000;

/// The time of a server.
pub(super) struct ServerTime {
    runtime: Rc<dyn Runtime>,
    mark: TimeMark,
    /// The clock of the process when the time was last advanced.
    seen: Cell<Nanoseconds>,
    /// The time then, in nanoseconds since 1970.
    time: Cell<u64>,
}

impl ServerTime {
    /// The time of the server of `pool`.
    pub fn new(pool: &Pool, runtime: Rc<dyn Runtime>) -> Self {
        let mark = pool.time_mark();
        let least = match mutant!(TimeMarkForgotten) {
            true => 0,
            false => mark.load().unwrap_or(0),
        };
        let time = runtime.wall_clock().max(least.saturating_mul(NS_PER_MS));
        Self {
            seen: Cell::new(runtime.now()),
            time: Cell::new(time),
            mark,
            runtime,
        }
    }

    /// Whether records of the pool may have an expiry.
    pub fn is_used(&self) -> bool {
        self.mark.load().is_some()
    }

    /// The time in milliseconds since 1970: what has expired is absent. Without a mark, nothing has an expiry.
    pub fn now_ms(&self) -> u64 {
        let Some(mark) = self.mark.load() else {
            return 0;
        };
        let time = self.advance();
        match mutant!(TimeBeyondMark) {
            true => time,
            false => time.min(mark),
        }
    }

    /// The time in milliseconds without regard to the mark. Nothing is absent because of this time alone.
    pub fn running_ms(&self) -> u64 {
        match self.is_used() {
            true => self.advance(),
            false => 0,
        }
    }

    /// Whether `expires` has come. Raises the mark if only the mark is in the way.
    pub fn has_come(&self, expires: Expiry) -> bool {
        let has_come = |now_ms| expires.has_come(now_ms);
        has_come(self.now_ms())
            || has_come(self.running_ms()) && self.ask().is_ok_and(|(now_ms, _)| has_come(now_ms))
    }

    /// The time, and the mark that it does not exceed before the mark is raised again. Raises the mark, durably, if the
    /// time comes near.
    pub fn ask(&self) -> Result<(u64, u64), MediaError> {
        let time = self.advance();
        let is_near = |mark: u64| mark < time + STEP_MS / 2;
        if self.mark.load().is_none_or(is_near) && !(mutant!(TimeBeyondMark) && self.is_used()) {
            self.mark.raise(time + STEP_MS)?;
        }
        Ok((self.now_ms(), self.mark.load().unwrap_or(0)))
    }

    /// Lets the time go on, in milliseconds.
    fn advance(&self) -> u64 {
        let now = self.runtime.now();
        let passed = now.saturating_sub(self.seen.get());
        // A shorter step leaves no room to follow.
        if passed >= NS_PER_MS / 4 {
            self.seen.set(now);
            let (wall, time) = (self.runtime.wall_clock(), self.time.get() + passed);
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
