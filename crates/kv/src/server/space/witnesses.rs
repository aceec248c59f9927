//! The witness of each segment, a word in its neighbour, and the times at which it is stored:
//! `docs/design/0028-segments-that-are-lost-whole.md`.
//!
//! ```text
//!   persist done --> tell      one 8-byte store: true from here on, even if a crash loses it
//!                     '------> due: its line goes with the next persist, now and then
//! ```
//!
//! Invariants:
//! - A word is stored only after the bytes that it vouches for are durable.
//! - A word is stored only where the medium has space for its line: elsewhere the store would allocate space, and end
//!   the server on a full disk.
//! - No persist is made for the sake of a word, except once in an opening.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_log::{LogFormat, SegmentState, UNIT_SIZE, Witness};
use stonecast_media::{Backing, Means, PersistentRegion, Prepared};
use stonecast_persist::Persisted;

/// Bytes that a segment gains before its word is persisted and, if a persist has a cost, stored. A sync writes every
/// changed page, so a word for each batch would cost a page for each batch; on persistent memory, it would cost 8 more
/// bytes of the medium for each put.
const WITNESS_STEP: u64 = 16 << 10;
const STEP_UNITS: u32 = (WITNESS_STEP / UNIT_SIZE) as u32;

/// The urgency of a new word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// More records will follow: the word is stored as often as that costs nearly nothing.
    Gained,
    /// No record may follow for long: the word is stored at once, and persisted with the next persist.
    Settled,
}

/// Stores the witness of each segment at its time.
pub(crate) struct Witnesses {
    backing: Rc<dyn Backing>,
    format: LogFormat,
    /// Whether a persist does nothing, so that a word costs only a store, and no byte of a medium.
    persists_nothing: bool,
    /// The words, by the number of the segment that they vouch for.
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
    /// The space was not asked for, or is being prepared.
    Unknown,
    Ready,
    /// The medium gave no space.
    Refused,
}

impl Told {
    /// A word of zeros stands for a first use in which nothing is durable yet.
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
    /// The words of a log about which nothing is known yet.
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

    /// Makes the words of a recovered log agree with the log: words of segments in `used` describe these segments, and
    /// all other words are zero. Takes the proof that the content of `used` is durable. A right word stays untouched.
    /// `occupied` are the parts of the log that are not holes. Returns the spans that the caller must persist; a crash
    /// before that leaves older words.
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
            // A read of a hole allocates memory.
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

    /// Stores how much of the segment of `state` is durable, if that is worth a store.
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
