//! Reads of a structure that was found in the table of structures before: they count only if the table is still the
//! same.
//!
//! A structure that was dropped or made empty looks as it did until its blocks are used again, and a version of a
//! multi-version structure for as long as it is kept. The root word shows the change. The word is read together with
//! the places that decide, so it costs no additional round trip, unless a reader has everything else in its cache.

use stonecast_base::{Span, mutant};

use super::traversal::{Place, Stale, Step, Traversal};

/// A traversal whose end counts only if the root word has not changed since the structure was found.
#[derive(Clone, Debug)]
pub struct Rooted<T: Traversal> {
    traversal: T,
    word: Span,
    expected: u64,
    stage: Stage<T::End>,
}

#[derive(Clone, Debug)]
enum Stage<E> {
    /// The traversal has not ended.
    On {
        /// Whether the word follows the places of the traversal.
        is_asked: bool,
        /// Whether the word was ever read.
        is_known: bool,
    },
    /// The end counts if the word is the expected one.
    End(E),
    Over,
}

impl<T: Traversal> Rooted<T> {
    /// Drives `traversal` on a structure of a table ([`Roots::word`](super::Roots::word)).
    pub fn new(traversal: T, (word, expected): (Span, u64)) -> Self {
        Self {
            traversal,
            word,
            expected,
            stage: Stage::On {
                is_asked: false,
                is_known: false,
            },
        }
    }

    fn is_expected(&self, bytes: Option<&Vec<u8>>) -> bool {
        let word = bytes.and_then(|bytes| bytes.first_chunk());
        let word = word.map(|word| u64::from_le_bytes(*word));
        word == Some(self.expected) || mutant!(RootWordIgnored)
    }

    fn other_table(&self) -> Step<T::End> {
        Step::Stale(Stale {
            place: self.word,
            what: "root word of the table that was read",
        })
    }
}

impl<T: Traversal> Traversal for Rooted<T> {
    type End = T::End;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<T::End> {
        let (mut bytes, mut known) = (bytes, false);
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::On { is_asked, is_known } => {
                known |= is_known;
                if is_asked {
                    let (word, rest) = match bytes.split_last() {
                        Some((word, rest)) => (Some(word), rest),
                        None => (None, bytes),
                    };
                    if !self.is_expected(word) {
                        return self.other_table();
                    }
                    (bytes, known) = (rest, true);
                }
            }
            Stage::End(end) => {
                return match self.is_expected(bytes.first()) {
                    true => Step::Done(end),
                    false => self.other_table(),
                };
            }
            Stage::Over => return self.other_table(),
        }
        match self.traversal.step(bytes) {
            Step::Read(mut places) => {
                let is_asked = places.iter().any(|place| !place.may_be_old);
                if is_asked {
                    places.push(Place::last(self.word));
                }
                let is_known = known;
                self.stage = Stage::On { is_asked, is_known };
                Step::Read(places)
            }
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(end) if known => Step::Done(end),
            Step::Done(end) => {
                self.stage = Stage::End(end);
                Step::one(Place::last(self.word))
            }
        }
    }
}
