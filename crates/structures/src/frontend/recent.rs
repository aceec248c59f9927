//! Answers of a reader that may be given again for a while.
//!
//! ```text
//!   call at t0 ──▶ answer, which was true at a moment after t0 ──▶ given again by calls that begin before t0 + d
//! ```
//!
//! The answer of a call is true at some moment of the call ([`StructureReader`](super::StructureReader)). A call that
//! begins at most `d` after that call began, and returns the same answer, therefore returns an answer that was true at
//! most `d` before. An answer is kept whole, so places of different moments are never combined. One clock measures all
//! times, so drift does not matter.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::Runtime;

use crate::shapes::btree::{Page, Seek};
use crate::space::ClockMap;

/// The approximate bytes that an answer takes in addition to its key and value.
const OVERHEAD: u64 = 96;

/// Answers by key, and pages of ranges, each with the moment at which its call began.
pub(super) struct Recent {
    clock: Rc<dyn Runtime>,
    age_max_ns: Nanoseconds,
    answers: ClockMap<Vec<u8>, Dated<Option<Vec<u8>>>, BuildHasherDefault<DefaultHasher>>,
    pages: ClockMap<Seek, Dated<Page>, BuildHasherDefault<DefaultHasher>>,
}

struct Dated<T> {
    began_at: Nanoseconds,
    answer: T,
}

/// The moment at which a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Began(Nanoseconds);

impl Recent {
    /// Answers are given again until they are `age_max_ns` old. Answers and pages of `size` bytes are kept.
    pub fn new(clock: Rc<dyn Runtime>, age_max_ns: Nanoseconds, size: u64) -> Self {
        Self {
            clock,
            age_max_ns,
            answers: ClockMap::new(size / 2),
            pages: ClockMap::new(size / 2),
        }
    }

    /// Begins a call, and returns its moment. No byte that the call reads is older.
    pub fn begin(&self) -> Began {
        Began(self.clock.now())
    }

    fn is_young(&self, (now, began_at): (Began, Nanoseconds)) -> bool {
        now.0.saturating_sub(began_at) <= self.age_max_ns || mutant!(AnswerKeptForever)
    }

    /// The answer for a key; the inner `None`: the key had no value. The outer `None`: the structure has to be asked.
    pub fn answer(&mut self, now: Began, key: &[u8]) -> Option<Option<&[u8]>> {
        let began_at = self.answers.get(key)?.began_at;
        let is_young = self.is_young((now, began_at));
        let dated = self.answers.get(key).filter(|_| is_young)?;
        Some(dated.answer.as_deref())
    }

    /// The page of a range. `None`: the structure has to be asked.
    pub fn page(&mut self, now: Began, seek: &Seek) -> Option<Page> {
        let began_at = self.pages.get(seek)?.began_at;
        let is_young = self.is_young((now, began_at));
        let dated = self.pages.get(seek).filter(|_| is_young)?;
        Some(dated.answer.clone())
    }

    /// Keeps the answer of a call.
    pub fn keep_answer(&mut self, began: Began, key: &[u8], answer: Option<Vec<u8>>) {
        let value_size = answer.as_ref().map_or(0, Vec::len);
        // The key stands in the index, too.
        let size = (2 * key.len() + value_size) as u64 + OVERHEAD;
        let began_at = began.0;
        let _before = self
            .answers
            .put(key.to_vec(), Dated { began_at, answer }, size);
    }

    /// Keeps the page of a call.
    pub fn keep_page(&mut self, began: Began, seek: &Seek, page: &Page) {
        let began_at = began.0;
        let answer = page.clone();
        let size = answer.size() as u64 + OVERHEAD;
        let _before = self
            .pages
            .put(seek.clone(), Dated { began_at, answer }, size);
    }
}
