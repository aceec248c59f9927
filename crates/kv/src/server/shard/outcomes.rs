//! The outcomes of the latest writes that carried tokens, so that a client can ask again if an answer was lost.
//!
//! Memory is bounded: the oldest outcomes are forgotten, up to the version of the horizon. A client that asks names the
//! latest version that it knew when it first sent the write; the write, if done, has a later version. If that version
//! is at or above the horizon, a write that is not remembered was therefore not done.
//!
//! Outcomes are not made durable: tokens lie in the records, and recovery finds them there.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::wire::limits::OUTCOMES_MAX;

/// Outcomes that each of many shards remembers, at most: tokens of one moment may all go to one shard.
const OUTCOMES_OF_SHARD_MIN: usize = 1024;

/// The outcomes of the latest writes that carried tokens.
pub(crate) struct Outcomes {
    /// Outcomes that are remembered, at most.
    max: usize,
    by_token: BTreeMap<u64, u64>,
    by_sequence: BTreeMap<u64, u64>,
    horizon: u64,
}

/// The known outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The write was done with this version.
    Done(u64),
    /// The write was not done.
    NotDone,
    /// The write may have been done long ago.
    Forgotten,
}

impl Outcomes {
    /// No outcomes, for one of `shards` shards; writes up to version `horizon` may have been done.
    pub fn forgotten_up_to(horizon: u64, shards: u32) -> Self {
        let share = OUTCOMES_MAX / shards as usize;
        Self {
            max: share.max(OUTCOMES_OF_SHARD_MIN),
            by_token: BTreeMap::new(),
            by_sequence: BTreeMap::new(),
            horizon,
        }
    }

    /// Raises the horizon: writes up to version `horizon` may have been done without a remembered outcome.
    pub fn forget_up_to(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
    }

    /// Remembers that the write with `token` was done with version `sequence`. Calls may come in any order. Token 0
    /// means no token.
    pub fn note(&mut self, token: u64, sequence: u64) {
        if token == 0 {
            return;
        }
        if let Some(earlier) = self.by_token.insert(token, sequence) {
            // A client that uses a token twice learns the outcome of the later write.
            self.by_sequence.remove(&earlier.min(sequence));
            self.by_token.insert(token, earlier.max(sequence));
            self.by_sequence.insert(earlier.max(sequence), token);
            return;
        }
        self.by_sequence.insert(sequence, token);
        if self.by_sequence.len() > self.max
            && let Some((sequence, token)) = self.by_sequence.pop_first()
        {
            self.by_token.remove(&token);
            self.horizon = self.horizon.max(sequence);
        }
    }

    /// The outcome of the write with `token`, sent when the latest version was at least `since`.
    pub fn find(&self, token: u64, since: u64) -> Outcome {
        match self.by_token.get(&token) {
            Some(&sequence) => Outcome::Done(sequence),
            None if since >= self.horizon => Outcome::NotDone,
            None => Outcome::Forgotten,
        }
    }

    /// The horizon: all later outcomes are remembered.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The remembered writes with a version above `version`, as version and token, oldest first.
    pub fn entries_behind(&self, version: u64) -> impl Iterator<Item = (u64, u64)> {
        let behind = (Bound::Excluded(version), Bound::Unbounded);
        let entries = self.by_sequence.range(behind);
        entries.map(|(&sequence, &token)| (sequence, token))
    }

    /// All remembered writes, as version and token, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_sequence
            .iter()
            .map(|(&sequence, &token)| (sequence, token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails without the bound and without the horizon: without the horizon, a write that was done long ago would be
    /// done again.
    #[test]
    fn the_oldest_outcomes_are_forgotten_and_not_mistaken_for_writes_never_done() {
        let mut outcomes = Outcomes::forgotten_up_to(0, 1);
        let count = OUTCOMES_MAX as u64 + 10;
        // Recovery finds records in any order.
        for sequence in (1..=count).rev() {
            outcomes.note(sequence + 1_000_000, sequence);
        }
        assert_eq!(outcomes.entries().count(), OUTCOMES_MAX);
        assert_eq!(outcomes.horizon(), 10);
        assert_eq!(outcomes.find(1_000_011, 0), Outcome::Done(11));
        assert_eq!(outcomes.find(1_000_010, 9), Outcome::Forgotten);
        assert_eq!(outcomes.find(5, 9), Outcome::Forgotten);
        assert_eq!(outcomes.find(5, 10), Outcome::NotDone);
    }

    #[test]
    fn writes_without_a_token_are_not_remembered() {
        let mut outcomes = Outcomes::forgotten_up_to(0, 1);
        outcomes.note(0, 5);
        assert_eq!(outcomes.find(0, 0), Outcome::NotDone);
    }

    #[test]
    fn the_later_of_two_writes_with_one_token_is_remembered() {
        for order in [[3, 9], [9, 3]] {
            let mut outcomes = Outcomes::forgotten_up_to(0, 1);
            order
                .into_iter()
                .for_each(|sequence| outcomes.note(7, sequence));
            assert_eq!(outcomes.find(7, 0), Outcome::Done(9));
            assert_eq!(outcomes.entries().collect::<Vec<_>>(), [(9, 7)]);
        }
    }
}
