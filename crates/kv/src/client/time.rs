//! The server's time, as a client knows it: told once, and carried forward by the client's own clock.
//!
//! Each shard of a cluster has a time of its own, since the heir of a shard begins at the highest time that a
//! predecessor may have told. A time that was told in one term says nothing in another one. All shards of a server that
//! is alone have the same time, and the client asks for each of them.
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
//! A key is permanently absent only if its moment lies below the durable mark: a server that starts again with a clock
//! that was set back continues from the mark.

use std::cell::Cell;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_lineage::Term;
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

/// The time of a shard as the server reported it.
#[derive(Clone, Copy)]
struct Told {
    term: Term,
    asked: Nanoseconds,
    told: Nanoseconds,
    time: ServerTimeGrant,
}

/// The times of the shards of a server, as a client knows them.
pub(super) struct ServerClock {
    of_shards: Box<[Cell<Option<Told>>]>,
}

impl ServerClock {
    /// The times of this many shards, none told.
    pub fn new(shards: u32) -> Self {
        let of_shards = (0..shards).map(|_| Cell::new(None)).collect();
        Self { of_shards }
    }

    /// Notes the answer to a question about `shard`, which was sent in `term` at `asked`, and arrived at `told`.
    pub fn note(
        &self,
        (shard, term): (u32, Term),
        (asked, told): (Nanoseconds, Nanoseconds),
        time: ServerTimeGrant,
    ) {
        self.of_shard(shard).set(Some(Told {
            term,
            asked,
            told,
            time,
        }));
    }

    /// The time of `shard` that was told in `term`.
    fn told(&self, (shard, term): (u32, Term)) -> Option<Told> {
        let told = self.of_shard(shard).get();
        told.filter(|told| told.term == term || mutant!(ToldForAllTerms))
    }

    fn of_shard(&self, shard: u32) -> &Cell<Option<Told>> {
        match mutant!(ToldForAllShards) {
            true => &self.of_shards[0],
            false => &self.of_shards[shard as usize],
        }
    }

    /// Whether the key of a shard that expires at `expires` is present at `now`, in the term that the client is in.
    pub fn judge(&self, of: (u32, Term), expires: Expiry, now: Nanoseconds) -> Presence {
        if mutant!(ExpiryIgnoredByReader) {
            return Presence::Present;
        }
        let Some(told) = self.told(of) else {
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

    /// The time of a shard at `now`, or a little later, in the term that the client is in; `None`: the server has to be
    /// asked.
    pub fn recent_ms(&self, of: (u32, Term), now: Nanoseconds) -> Option<u64> {
        let told = self.told(of)?;
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

    const HERE: (u32, Term) = (1, stonecast_lineage::Epoch(5));

    fn clock(asked: Nanoseconds, told: Nanoseconds, now_ms: u64, mark_ms: u64) -> ServerClock {
        let clock = ServerClock::new(3);
        clock.note(HERE, (asked, told), ServerTimeGrant { now_ms, mark_ms });
        clock
    }

    fn at(ms: u64) -> Expiry {
        Expiry::at_ms(ms).unwrap()
    }

    #[test]
    fn a_key_is_present_only_before_the_latest_time_that_the_server_may_have() {
        let clock = clock(0, 4 * MS, 1000, 9000);
        // Told at 0 at the earliest, so the server's time at 512 ms is 1513 ms and one drift at most.
        assert_eq!(clock.judge(HERE, at(1515), 512 * MS), Presence::Present);
        assert_eq!(clock.judge(HERE, at(1514), 512 * MS), Presence::Absent);
    }

    /// Needs the bounds: an old time says nothing about moments near by.
    #[test]
    fn a_client_with_an_old_time_asks_only_about_moments_near_by() {
        let clock = clock(0, 0, 1000, 900_000);
        let now = 512_000 * MS;
        assert_eq!(clock.judge(HERE, at(512_000), now), Presence::Absent);
        assert_eq!(clock.judge(HERE, at(512_001), now), Presence::Unsure);
        assert_eq!(clock.judge(HERE, at(514_001), now), Presence::Unsure);
        assert_eq!(clock.judge(HERE, at(514_002), now), Presence::Present);
    }

    /// Needs the mark: a server that starts again below the moment would have the key again.
    #[test]
    fn a_key_that_expires_beyond_the_mark_is_not_absent_yet() {
        let clock = clock(0, 0, 1000, 1010);
        assert_eq!(clock.judge(HERE, at(1010), 20 * MS), Presence::Absent);
        assert_eq!(clock.judge(HERE, at(1011), 20 * MS), Presence::Unsure);
    }

    #[test]
    fn a_client_that_was_told_nothing_asks() {
        let untold = ServerClock::new(3);
        assert_eq!(untold.judge(HERE, at(1), 0), Presence::Unsure);
        assert_eq!(untold.recent_ms(HERE, 0), None);
        let told = clock(0, 0, 1000, 0);
        assert_eq!(told.recent_ms(HERE, 10 * MS), Some(1012));
        assert_eq!(told.recent_ms(HERE, 11 * FRESH_NS), None);
    }

    /// Needs the shard and the term of the told time: an heir may be ahead of its predecessor. The seeded bugs
    /// `ToldForAllShards` and `ToldForAllTerms`.
    #[test]
    fn what_was_told_of_a_shard_in_a_term_says_nothing_of_others() {
        let clock = clock(0, 0, 1000, 9000);
        let (shard, term) = HERE;
        for other in [
            (shard + 1, term),
            (shard, stonecast_lineage::Epoch(term.0 + 1)),
        ] {
            assert_eq!(clock.judge(other, at(5000), 0), Presence::Unsure);
            assert_eq!(clock.recent_ms(other, 0), None);
        }
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn every_seeded_bug_of_the_time_that_was_told_is_found() {
        use stonecast_base::hunts::by_stories;
        use stonecast_base::mutants::Mutant;

        let story = what_was_told_of_a_shard_in_a_term_says_nothing_of_others as fn();
        let stories = [
            (Mutant::ToldForAllShards, story),
            (Mutant::ToldForAllTerms, story),
        ];
        by_stories("kv/told", &stories);
    }
}
