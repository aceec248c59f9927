//! The outcomes of the latest writes that carried tokens, so that a client can ask again if an answer was lost.
//!
//! Memory is bounded: the oldest outcomes are forgotten, up to the version of the horizon. A client that asks names the
//! latest version that it knew when it first sent the write; the write, if done, has a later version. If that version
//! is at or above the horizon, a write that is not remembered was therefore not done.
//!
//! Outcomes are not made durable: tokens lie in the records, and recovery finds them there.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::iter::from_fn;
use std::ops::Bound;

use stonecast_base::hash::TableHashes;

use crate::wire::limits::OUTCOMES_MAX;

/// Outcomes that each of many shards remembers, at most: tokens of one moment may all go to one shard.
const OUTCOMES_OF_SHARD_MIN: usize = 1024;

/// The outcomes of the latest writes that carried tokens.
pub(crate) struct Outcomes {
    /// Outcomes that are remembered, at most.
    max: usize,
    /// Versions and tokens that came after all earlier ones, as nearly all do.
    in_order: VecDeque<(u64, u64)>,
    /// Those that came late, by version.
    late: BTreeMap<u64, u64>,
    /// Made when a client asks, which few do: otherwise each write would pay for the map.
    by_token: Option<HashMap<u64, u64, TableHashes>>,
    /// Writes since a client asked last.
    unasked: usize,
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
            in_order: VecDeque::new(),
            late: BTreeMap::new(),
            by_token: None,
            unasked: 0,
            horizon,
        }
    }

    /// Raises the horizon: writes up to version `horizon` may have been done without a remembered outcome.
    pub fn forget_up_to(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
    }

    /// Remembers that the write with `token` was done with version `sequence`. Calls may come in any order. Token 0
    /// means no token. A client that uses a token twice learns the outcome of the later write.
    pub fn note(&mut self, token: u64, sequence: u64) {
        if token == 0 {
            return;
        }
        match self.in_order.back_mut() {
            // The records of a batch have one token.
            Some((last, of)) if *of == token => *last = sequence.max(*last),
            Some((last, _)) if *last >= sequence => self.note_late(token, sequence),
            _ => self.in_order.push_back((sequence, token)),
        }
        self.unasked += 1;
        if self.unasked > self.max {
            self.by_token = None;
        }
        if let Some(by_token) = &mut self.by_token {
            let latest = by_token.entry(token).or_default();
            *latest = sequence.max(*latest);
        }
        if self.in_order.len() + self.late.len() > self.max {
            self.forget_oldest();
        }
    }

    #[cold]
    fn note_late(&mut self, token: u64, sequence: u64) {
        let known = self.in_order.binary_search_by_key(&sequence, |it| it.0);
        if known.is_err() {
            self.late.insert(sequence, token);
        }
    }

    fn forget_oldest(&mut self) {
        let late = self.late.first_key_value();
        let is_late =
            late.is_some_and(|(&late, _)| self.in_order.front().is_none_or(|it| late < it.0));
        let oldest = match is_late {
            true => self.late.pop_first(),
            false => self.in_order.pop_front(),
        };
        let Some((sequence, token)) = oldest else {
            return;
        };
        self.horizon = self.horizon.max(sequence);
        if let Some(by_token) = &mut self.by_token
            && by_token.get(&token) == Some(&sequence)
        {
            by_token.remove(&token);
        }
    }

    /// The outcome of the write with `token`, sent when the latest version was at least `since`.
    pub fn find(&mut self, token: u64, since: u64) -> Outcome {
        self.unasked = 0;
        if self.by_token.is_none() {
            let by_token = self.entries().map(|(sequence, token)| (token, sequence));
            self.by_token = Some(by_token.collect());
        }
        match self.by_token.as_ref().and_then(|it| it.get(&token)) {
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
        let first = self.in_order.partition_point(|it| it.0 <= version);
        let mut in_order = self.in_order.range(first..).copied().peekable();
        let behind = (Bound::Excluded(version), Bound::Unbounded);
        let late = self.late.range(behind);
        let mut late = late.map(|(&version, &token)| (version, token)).peekable();
        from_fn(move || match (in_order.peek(), late.peek()) {
            (Some(next), Some(other)) if other.0 < next.0 => late.next(),
            (None, _) => late.next(),
            _ => in_order.next(),
        })
    }

    /// All remembered writes, as version and token, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.entries_behind(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::RngExt as _;
    use stonecast_base::random_from_seed;

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
    fn the_later_of_two_writes_with_one_token_is_found() {
        for order in [[3, 9], [9, 3]] {
            let mut outcomes = Outcomes::forgotten_up_to(0, 1);
            order
                .into_iter()
                .for_each(|sequence| outcomes.note(7, sequence));
            assert_eq!(outcomes.find(7, 0), Outcome::Done(9));
            assert_eq!(outcomes.entries().collect::<Vec<_>>(), [(9, 7)]);
            (4..6).for_each(|sequence| outcomes.note(sequence, sequence));
            outcomes.note(7, 2);
            assert_eq!(outcomes.find(7, 0), Outcome::Done(9));
        }
    }

    /// Needs the index that ends: each write would otherwise change two tables for the sake of a client that asked
    /// once.
    #[test]
    fn the_index_of_tokens_lasts_as_long_as_clients_ask() {
        let mut outcomes = Outcomes::forgotten_up_to(0, 32);
        let max = outcomes.max as u64;
        (1..=max).for_each(|sequence| outcomes.note(sequence + 7, sequence));
        assert!(outcomes.by_token.is_none(), "nobody has asked");
        assert_eq!(outcomes.find(8, 0), Outcome::Done(1));
        (max + 1..2 * max).for_each(|sequence| outcomes.note(sequence + 7, sequence));
        assert!(outcomes.by_token.is_some());
        assert_eq!(outcomes.find(2 * max + 6, 0), Outcome::Done(2 * max - 1));
        assert_eq!(outcomes.find(8, 0), Outcome::Forgotten);
        assert_eq!(outcomes.by_token.as_ref().unwrap().len() as u64, max);
        (2 * max..=3 * max).for_each(|sequence| outcomes.note(sequence + 7, sequence));
        assert!(outcomes.by_token.is_none(), "nobody has asked for long");
        assert_eq!(outcomes.find(3 * max + 7, 0), Outcome::Done(3 * max));
    }

    /// Compares with a naive table: versions that come in nearly any order, each with a token of its own.
    #[test]
    fn the_latest_outcomes_are_found_whatever_the_order_of_their_versions() {
        let mut random = random_from_seed(3);
        for _ in 0..50 {
            let mut outcomes = Outcomes::forgotten_up_to(0, 32);
            outcomes.max = 20;
            let mut all = BTreeSet::new();
            for step in 1..=100 {
                let sequence = random.random_range(step..step + 30_u64);
                // A node that led digests its records once more.
                outcomes.note(sequence + 1_000, sequence);
                if sequence > outcomes.horizon() || all.contains(&sequence) {
                    all.insert(sequence);
                }
                let remembered: Vec<u64> = outcomes.entries().map(|it| it.0).collect();
                assert!(remembered.is_sorted() && remembered.len() <= 20);
                let behind = all.iter().filter(|&&it| it > outcomes.horizon());
                let missing = behind.filter(|it| !remembered.contains(it));
                assert_eq!(missing.count(), 0, "step {step}");
                let asked = random.random_range(step..step + 30);
                let since = outcomes.horizon();
                let expected = match remembered.contains(&asked) {
                    true => Outcome::Done(asked),
                    false => Outcome::NotDone,
                };
                if step % 3 == 0 {
                    assert_eq!(outcomes.find(asked + 1_000, since), expected);
                }
            }
        }
    }
}
