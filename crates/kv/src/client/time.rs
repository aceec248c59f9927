//! The server's time, as a client knows it: told once, and carried forward by the client's own clock.
//!
//! ```text
//!   asked                 told                                        now
//!     |---- told at some moment here ----|                             |
//!     the server's time now lies between  lower: since told, slowly    and  upper: since asked, fast
//!
//!                      lower                upper
//!   ----- expired --------|---- unsure -------|------ present ------>  moments
//! ```
//!
//! A key whose moment lies between the two bounds counts as absent: a client errs by calling a key absent too early, by
//! the uncertainty at most, and never returns an expired key. Bounds that lie far apart are no reason for an error: a
//! client that is unsure asks again unless it has asked within [`FRESH_NS`].
//!
//! A key is absent for good only if its moment lies below the durable mark: a server that starts again with a clock
//! that was set back goes on from the mark.

use std::cell::Cell;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_log::Expiry;

use crate::wire::ServerTimeGrant;
use crate::wire::limits::TIME_DRIFT_SHIFT;

/// Age of the time up to which an unsure client does not ask again: with the drift, an uncertainty of 2 ms.
const FRESH_NS: Nanoseconds = 1_000_000_000;
/// Age of the time up to which the client derives moments of new keys from it.
const RECENT_NS: Nanoseconds = 10 * FRESH_NS;
const NS_PER_MS: u64 = 1_000_000;

/// A judgement about a key with an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Present,
    Absent,
    /// The server has to be asked for its time.
    Unsure,
}

/// The server's time as it was told.
#[derive(Clone, Copy)]
struct Told {
    asked: Nanoseconds,
    told: Nanoseconds,
    time: ServerTimeGrant,
}

/// The server's time, as a client knows it.
#[derive(Default)]
pub(super) struct ServerClock {
    told: Cell<Option<Told>>,
}

impl ServerClock {
    /// Notes the answer to a question that was sent at `asked`, and arrived at `told`.
    pub fn note(&self, asked: Nanoseconds, told: Nanoseconds, time: ServerTimeGrant) {
        self.told.set(Some(Told { asked, told, time }));
    }

    /// Whether the key that expires at `expires` is present at `now`.
    pub fn judge(&self, expires: Expiry, now: Nanoseconds) -> Presence {
        if mutant!(ExpiryIgnoredByReader) {
            return Presence::Present;
        }
        let Some(told) = self.told.get() else {
            return Presence::Unsure;
        };
        if expires.ms() > told.upper_ms(now) {
            return Presence::Present;
        }
        let is_fresh = now.saturating_sub(told.asked) <= FRESH_NS;
        let is_sure = expires.ms() <= told.lower_ms(now) || is_fresh;
        let is_for_good = expires.ms() <= told.time.mark_ms || mutant!(TimeBeyondMark);
        match is_sure && is_for_good {
            true => Presence::Absent,
            false => Presence::Unsure,
        }
    }

    /// The server's time at `now`, or a little later; `None`: the server has to be asked.
    pub fn recent_ms(&self, now: Nanoseconds) -> Option<u64> {
        let told = self.told.get()?;
        (now.saturating_sub(told.asked) <= RECENT_NS).then(|| told.upper_ms(now))
    }
}

impl Told {
    /// The server's time is not later.
    fn upper_ms(&self, now: Nanoseconds) -> u64 {
        let passed = now.saturating_sub(self.asked);
        let drift = match mutant!(DriftIgnored) {
            true => 0,
            false => passed >> TIME_DRIFT_SHIFT,
        };
        // The time was told in whole milliseconds.
        let passed_ms = (passed + drift).div_ceil(NS_PER_MS) + 1;
        self.time.now_ms.saturating_add(passed_ms)
    }

    /// The server's time is not earlier.
    fn lower_ms(&self, now: Nanoseconds) -> u64 {
        let passed = now.saturating_sub(self.told);
        let passed_ms = (passed - (passed >> TIME_DRIFT_SHIFT)) / NS_PER_MS;
        self.time.now_ms.saturating_add(passed_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanoseconds = NS_PER_MS;

    fn clock(asked: Nanoseconds, told: Nanoseconds, now_ms: u64, mark_ms: u64) -> ServerClock {
        let clock = ServerClock::default();
        clock.note(asked, told, ServerTimeGrant { now_ms, mark_ms });
        clock
    }

    fn at(ms: u64) -> Expiry {
        Expiry::at_ms(ms).unwrap()
    }

    #[test]
    fn a_key_is_present_only_before_the_latest_time_that_the_server_may_have() {
        let clock = clock(0, 4 * MS, 1000, 9000);
        // Told at 0 at the earliest, so the server's time at 512 ms is 1513 ms and one drift at most.
        assert_eq!(clock.judge(at(1515), 512 * MS), Presence::Present);
        assert_eq!(clock.judge(at(1514), 512 * MS), Presence::Absent);
    }

    /// Needs the bounds: an old time says nothing about moments near by.
    #[test]
    fn a_client_with_an_old_time_asks_only_about_moments_near_by() {
        let clock = clock(0, 0, 1000, 900_000);
        let now = 512_000 * MS;
        assert_eq!(clock.judge(at(512_000), now), Presence::Absent);
        assert_eq!(clock.judge(at(512_001), now), Presence::Unsure);
        assert_eq!(clock.judge(at(514_001), now), Presence::Unsure);
        assert_eq!(clock.judge(at(514_002), now), Presence::Present);
    }

    /// Needs the mark: a server that starts again below the moment would have the key again.
    #[test]
    fn a_key_that_expires_beyond_the_mark_is_not_absent_yet() {
        let clock = clock(0, 0, 1000, 1010);
        assert_eq!(clock.judge(at(1010), 20 * MS), Presence::Absent);
        assert_eq!(clock.judge(at(1011), 20 * MS), Presence::Unsure);
    }

    #[test]
    fn a_client_that_was_told_nothing_asks() {
        assert_eq!(ServerClock::default().judge(at(1), 0), Presence::Unsure);
        assert_eq!(ServerClock::default().recent_ms(0), None);
        assert_eq!(clock(0, 0, 1000, 0).recent_ms(10 * MS), Some(1012));
        assert_eq!(clock(0, 0, 1000, 0).recent_ms(11 * FRESH_NS), None);
    }
}
