//! Generations of segments as a reader sees them: an index word contains their low 10 bits.
//!
//! A word whose segment was used 1024 more times looks like a word of the segment's present generation. The server
//! takes at least a second for so many uses of one segment (`space.rs`), so a record read within [`SPAN_NS_MAX`] after
//! its word is of the generation that the word means. Until a reader meets a record of generation 1024 or above, no
//! generation can be confused, and the reader does not read the clock.

use std::cell::Cell;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

/// The longest time between the reads of a word and of its record: half of the least time that 768 generations of a
/// segment take.
const SPAN_NS_MAX: Nanoseconds = 500_000_000;
/// Number of generations that words distinguish.
pub(crate) const GENERATIONS: u32 = 1 << 10;

/// Generations of segments as a reader sees them.
#[derive(Default)]
pub(crate) struct Generations {
    come_round: Cell<bool>,
}

impl Generations {
    /// Begins the read of a word and of its record.
    #[inline]
    pub fn begin(&self, runtime: &dyn Runtime) -> Option<Nanoseconds> {
        self.come_round.get().then(|| runtime.now())
    }

    /// Whether generations have wrapped around, so that reads have to be timed.
    #[inline]
    pub fn have_come_round(&self) -> bool {
        self.come_round.get()
    }

    /// Notes that a record of this generation was read. Returns whether, as far as the record shows, no generation has
    /// wrapped around.
    #[inline]
    pub fn note(&self, generation: u32) -> bool {
        let is_early = generation < GENERATIONS;
        if !is_early {
            self.come_round.set(true);
        }
        is_early
    }

    /// Whether the records read since `begin` are the records that the words meant.
    #[inline]
    pub fn believes(&self, runtime: &dyn Runtime, begun: Option<Nanoseconds>) -> bool {
        !self.come_round.get() || begun.is_some_and(|begun| runtime.now() - begun <= SPAN_NS_MAX)
    }
}
