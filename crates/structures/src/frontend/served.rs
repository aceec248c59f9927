//! Reads of a reader that shares memory with its back-end.
//!
//! A back-end that was killed leaves its memory to the next one, which applies the log again from its base. In the
//! meantime the memory shows earlier states, and the serving word is odd. A reader reads the word before and after each
//! traversal, and accepts the end of the traversal only if both reads returned the same even number.

use stonecast_base::{Span, mutant};

use crate::shapes::{Place, Stale, Step, Traversal};

/// A traversal whose end counts only if the back-end has served all the time.
#[derive(Clone, Debug)]
pub struct Served<T: Traversal> {
    traversal: T,
    word: Span,
    before: Option<u64>,
    has_begun: bool,
    end: Option<T::End>,
}

impl<T: Traversal> Served<T> {
    /// Drives `traversal` between two reads of the serving word.
    pub fn new(traversal: T, word: Span) -> Self {
        Self {
            traversal,
            word,
            before: None,
            has_begun: false,
            end: None,
        }
    }

    fn look(&self) -> Step<T::End> {
        Step::one(Place::last(self.word))
    }

    fn word_in(bytes: &[Vec<u8>]) -> Option<u64> {
        let word = bytes.first()?.first_chunk()?;
        Some(u64::from_le_bytes(*word))
    }

    fn not_serving(&self) -> Step<T::End> {
        Step::Stale(Stale {
            place: self.word,
            what: "even serving word",
        })
    }
}

impl<T: Traversal> Traversal for Served<T> {
    type End = T::End;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<T::End> {
        if let Some(end) = self.end.take() {
            let is_same = Self::word_in(bytes) == self.before || mutant!(ServingWordIgnored);
            return match is_same {
                true => Step::Done(end),
                false => self.not_serving(),
            };
        }
        let Some(before) = self.before else {
            self.before = Self::word_in(bytes);
            return match self.before {
                None => self.look(),
                Some(word) if word.is_multiple_of(2) || mutant!(ServingWordIgnored) => {
                    self.step(&[])
                }
                Some(_) => self.not_serving(),
            };
        };
        debug_assert!(before.is_multiple_of(2) || mutant!(ServingWordIgnored));
        let bytes = match std::mem::replace(&mut self.has_begun, true) {
            true => bytes,
            false => &[],
        };
        match self.traversal.step(bytes) {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(end) => {
                self.end = Some(end);
                self.look()
            }
        }
    }
}
