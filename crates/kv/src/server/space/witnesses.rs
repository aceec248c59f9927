//! The words that each segment's neighbour has of it, and when they are stored: `docs/design/0028-segments-that-are-lost-whole.md`.
//!
//! ```text
//!   persist done --> tell      one 8-byte store: true from here on, whatever a crash keeps of it
//!                     '------> due: its line goes with the next persist, now and then
//! ```
//!
//! Invariants:
//! - A word is stored only when what it tells is durable.
//! - A word is stored only where the medium has space for its line: elsewhere the store would take space, and on a full disk
//!   end the server.
//! - No persist is made for the sake of a word, except once in an opening.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_log::{LogFormat, SegmentState, UNIT_SIZE, Witness};
use stonecast_media::{Backing, Means, PersistentRegion, Prepared};
use stonecast_persist::Persisted;

/// Bytes that a segment gains before its word is persisted and, if persisting costs anything, stored: a sync
/// writes every page that was changed, so that a word for each batch would be a page for each batch, and on persistent memory
/// it would be 8 bytes more of the medium for each put.
const WITNESS_STEP: u64 = 16 << 10;
const STEP_UNITS: u32 = (WITNESS_STEP / UNIT_SIZE) as u32;

/// How urgent it is that the neighbour is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// More of the same will come: as often as it costs next to nothing.
    Gained,
    /// Nothing may come for long: stored now, persisted with the next persist.
    Settled,
}

/// See the module documentation.
pub(crate) struct Witnesses {
    backing: Rc<dyn Backing>,
    format: LogFormat,
    /// Nothing is done to persist: a word costs a store, and no byte of a medium.
    persists_nothing: bool,
    /// By the number of the segment that is told of.
    told: Vec<Told>,
    /// Lines to persist.
    due: Vec<Span>,
}

/// The word that the neighbour of a segment has of it.
#[derive(Clone, Copy)]
struct Told {
    stored: Witness,
    /// The part of the word that a power cut leaves, once the due lines are persisted.
    kept: u32,
    line: Line,
}

/// Whether the line of a word has its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Not asked for, or being prepared.
    Unknown,
    Ready,
    /// The medium gave none.
    Refused,
}

impl Told {
    /// A word of zeros tells of a first use in which nothing is durable yet.
    const NOTHING: Self = Self {
        stored: Witness {
            generation: 1,
            unit: stonecast_log::SEGMENT_HEADER_UNITS,
        },
        kept: stonecast_log::SEGMENT_HEADER_UNITS,
        line: Line::Unknown,
    };
}

impl Witnesses {
    /// Those of a log of which nothing is known yet.
    pub fn new(backing: Rc<dyn Backing>, log: &dyn PersistentRegion, format: LogFormat) -> Self {
        Self {
            backing,
            format,
            persists_nothing: log.means() == Means::Process,
            told: vec![Told::NOTHING; format.segment_count as usize],
            due: Vec::new(),
        }
    }

    /// The facts of the pool.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Makes the words what a recovered log is: `used` are told of, and of all others nothing is. Takes the proof that what `used`
    /// hold is durable. A word that is right stays untouched. `occupied` are the parts of the log that are no holes. Returns what the caller must
    /// persist; a crash before leaves older words.
    pub fn renew(
        &mut self,
        log: &dyn PersistentRegion,
        used: &[SegmentState],
        occupied: &[Span],
        _: &Persisted,
    ) -> Vec<Span> {
        let mut expected = vec![None; self.format.segment_count as usize];
        for state in used {
            expected[state.number as usize] = Witness::of(state);
        }
        let mut changed = Vec::new();
        for (number, witness) in (0..).zip(expected) {
            let line = Witness::line(&self.format, number);
            let is_hole = !occupied.iter().any(|span| span.overlap(line).is_some());
            let word = Witness::word(witness, &self.format, number);
            // Reading a hole takes memory.
            let found = if is_hole {
                0
            } else {
                Witness::load(log, &self.format, number)
            };
            if found != word {
                if !self.is_ready(number) {
                    continue;
                }
                changed.push(Witness::store(log, &self.format, number, word));
            }
            if let Some(witness) = witness {
                let told = &mut self.told[number as usize];
                told.stored = witness;
                told.kept = witness.unit;
            }
        }
        changed
    }

    /// Tells how much of the segment of `state` is durable, if that is worth a store by now.
    pub(super) fn tell(
        &mut self,
        log: &dyn PersistentRegion,
        state: &SegmentState,
        telling: Telling,
    ) {
        let Some(witness) = Witness::of(state) else {
            return;
        };
        let Told { stored, kept, line } = self.told[state.number as usize];
        let is_new = stored.generation != witness.generation;
        let is_settled = telling == Telling::Settled;
        let keep_step = if is_settled { 1 } else { STEP_UNITS };
        let store_step = if self.persists_nothing { 1 } else { keep_step };
        let stores = is_new || witness.unit >= stored.unit + store_step;
        let keeps = is_new || witness.unit >= kept + keep_step;
        if !stores && !keeps || line == Line::Refused && !is_settled || !self.is_ready(state.number)
        {
            return;
        }
        let told = &mut self.told[state.number as usize];
        if stores {
            let word = Witness::word(Some(witness), &self.format, state.number);
            Witness::store(log, &self.format, state.number, word);
            told.stored = witness;
        }
        if keeps {
            told.kept = told.stored.unit;
            self.due.push(Witness::line(&self.format, state.number));
        }
    }

    /// The lines that go with the next persist.
    pub fn take_due(&mut self) -> impl Iterator<Item = Span> + '_ {
        self.due.drain(..)
    }

    /// Whether the line of a word has its space, in this run.
    fn is_ready(&mut self, number: u32) -> bool {
        let line = &mut self.told[number as usize].line;
        if *line != Line::Ready {
            let keeper = Witness::keeper(&self.format, number);
            let start = Span::new(
                self.format.position(keeper, 0),
                u64::from(stonecast_log::SEGMENT_HEADER_UNITS) * UNIT_SIZE,
            );
            *line = match self.backing.prepare(start) {
                Ok(Prepared::Ready) => Line::Ready,
                Ok(Prepared::Pending) => Line::Unknown,
                Err(_) => Line::Refused,
            };
        }
        *line == Line::Ready
    }
}
