//! The outcomes of the latest writes that carried tokens, so that a client can ask again if an answer was lost.
//!
//! Memory is bounded: the oldest outcomes are forgotten, and the horizon says up to which version. A client that asks names the
//! latest version that it knew when it first sent the write; the write, if it was done, has a later one. So if that version lies at
//! or above the horizon, a write that is not remembered was not done.
//!
//! Nothing here is made durable by itself: tokens lie in the records, and recovery finds them there.

use std::collections::BTreeMap;

use crate::wire::limits::OUTCOMES_MAX;

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Outcomes {
    by_token: BTreeMap<u64, u64>,
    by_sequence: BTreeMap<u64, u64>,
    horizon: u64,
}

/// The outcome of a write, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was done, as this version.
    Done(u64),
    /// It was not done.
    NotDone,
    /// It may have been done, long ago.
    Forgotten,
}

impl Outcomes {
    /// Nothing is remembered; writes up to version `horizon` may have been.
    pub fn forgotten_up_to(horizon: u64) -> Self {
        Self {
            horizon,
            ..Self::default()
        }
    }

    /// Writes up to version `horizon` may have been done and be unknown here.
    pub fn forget_up_to(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
    }

    /// Remembers that the write with `token` was done as version `sequence`. Calls may come in any order. Token 0 stands for none.
    pub fn note(&mut self, token: u64, sequence: u64) {
        if token == 0 {
            return;
        }
        if let Some(earlier) = self.by_token.insert(token, sequence) {
            // A caller that uses a token twice is told of the later one.
            self.by_sequence.remove(&earlier.min(sequence));
            self.by_token.insert(token, earlier.max(sequence));
            self.by_sequence.insert(earlier.max(sequence), token);
            return;
        }
        self.by_sequence.insert(sequence, token);
        if self.by_sequence.len() > OUTCOMES_MAX
            && let Some((sequence, token)) = self.by_sequence.pop_first()
        {
            self.by_token.remove(&token);
            self.horizon = self.horizon.max(sequence);
        }
    }

    /// The outcome of the write with `token`, which was sent when the latest version was at least `since`.
    pub fn find(&self, token: u64, since: u64) -> Outcome {
        match self.by_token.get(&token) {
            Some(&sequence) => Outcome::Done(sequence),
            None if since >= self.horizon => Outcome::NotDone,
            None => Outcome::Forgotten,
        }
    }

    /// Everything later than this is remembered.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// All that is remembered: version and token, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_sequence
            .iter()
            .map(|(&sequence, &token)| (sequence, token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the bound and the horizon: without the horizon a write that was done long ago would be done again.
    #[test]
    fn the_oldest_are_forgotten_and_not_taken_for_never_done() {
        let mut outcomes = Outcomes::default();
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
        let mut outcomes = Outcomes::default();
        outcomes.note(0, 5);
        assert_eq!(outcomes.find(0, 0), Outcome::NotDone);
    }

    #[test]
    fn of_two_writes_with_one_token_the_later_is_told() {
        for order in [[3, 9], [9, 3]] {
            let mut outcomes = Outcomes::default();
            order
                .into_iter()
                .for_each(|sequence| outcomes.note(7, sequence));
            assert_eq!(outcomes.find(7, 0), Outcome::Done(9));
            assert_eq!(outcomes.entries().collect::<Vec<_>>(), [(9, 7)]);
        }
    }
}
