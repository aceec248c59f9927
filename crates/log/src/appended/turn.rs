//! How a segment becomes one that appends fill, and how it becomes a blank segment of records again.
//!
//! ```text
//!   to appends:   what counts by accident cleared | seal and ledger of the next generation | first header | second header | posted
//!   to records:                                     seal of the next generation            | first header | second header | blank
//!                                       persisted ^                                        ^              ^               ^
//! ```

use stonecast_base::{Span, mutant};
use stonecast_media::Region;

use super::entry::{EntryFacts, EntryFormat};
use super::ledger::{Ledger, LedgerFull, clear_forged, first_unit};
use super::scan::Look;
use super::stale::Stale;
use crate::format::{LogFormat, UNIT_SIZE};
use crate::seal::Heritage;
use crate::segment::{self, SegmentKind};
use crate::state::SegmentState;

/// Units that one step looks at.
const UNITS_A_STEP: u32 = 4096;

/// A segment that changes its kind, step by step. The caller persists what a step returns before the next one. A crash leaves the
/// segment in one kind and generation or the other; a turn that a crash interrupted is begun again, or not at all.
#[derive(Debug)]
pub struct Turn {
    next: SegmentState,
    kind: SegmentKind,
    stage: Stage,
    stale: Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Units from this one on may hold entries that count.
    Clear(u32),
    Facts,
    /// The copy of the header that is next.
    Header(usize),
    Done,
}

/// Writes the header of a segment that appends fill, of which one copy is damaged, and returns what the caller must persist.
pub fn mend_header(region: &dyn Region, format: &LogFormat, state: &SegmentState) -> [Span; 2] {
    let told = (SegmentKind::Appends, state.generation);
    [0, 1].map(|copy| segment::write_copy(region, format, state.number, told, copy))
}

/// What comes of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turned {
    /// Persist these spans, and take the next step.
    Persist(Vec<Span>),
    /// The segment has its new kind, durably.
    Done(SegmentState),
}

impl Turn {
    /// Turns a blank segment into one that appends fill. `before` is its state where it was used before, and `heritage` what the
    /// log remembers of freed segments, which each change of a generation carries on.
    ///
    /// # Panics
    /// Where the generations of the segment are [used up](SegmentState::may_be_used_again), or `before` says that records are in it.
    pub fn to_appends(number: u32, before: Option<&SegmentState>, heritage: Heritage) -> Self {
        assert!(
            before.is_none_or(SegmentState::is_blank),
            "segment {number} holds records"
        );
        Self::new(number, before, heritage, SegmentKind::Appends)
    }

    /// Turns a segment that appends have filled into a blank one of records. Its entries are
    /// [settled](super::Buffers::reusable), and nobody appends to it any more.
    ///
    /// # Panics
    /// Where its generations are used up, or it is the [home](Ledger::home) of the newest ledger: write one elsewhere first.
    pub fn to_records(state: &SegmentState, heritage: Heritage, ledger: &Ledger) -> Self {
        keep_home(state.number, ledger);
        Self::new(state.number, Some(state), heritage, SegmentKind::Records)
    }

    fn new(
        number: u32,
        before: Option<&SegmentState>,
        heritage: Heritage,
        kind: SegmentKind,
    ) -> Self {
        let next = match before {
            None => SegmentState::fresh(number, 1),
            Some(before) => before.next_generation(heritage),
        };
        let stage = match kind {
            SegmentKind::Appends => Stage::Clear(0),
            SegmentKind::Records => Stage::Facts,
        };
        let stale = Stale::default();
        Self {
            next,
            kind,
            stage,
            stale,
        }
    }

    /// The entries in the segment of a turn to appends that is done, none of which is news: for [`Buffers::posted_over`](super::Buffers::posted_over).
    pub fn take_stale(&mut self) -> Stale {
        std::mem::take(&mut self.stale)
    }

    /// Takes a step. `ledger` says what counts, and the segment gets a copy of it.
    ///
    /// # Errors
    /// The ledger has more rows than the segment keeps. The segment stays what it was.
    ///
    /// # Panics
    /// If the segment turns into one of records and has become the [home](Ledger::home) of the newest ledger.
    pub fn step(
        &mut self,
        region: &dyn Region,
        format: &LogFormat,
        entries: &dyn EntryFormat,
        ledger: &mut Ledger,
    ) -> Result<Turned, LedgerFull> {
        if self.kind == SegmentKind::Records {
            keep_home(self.next.number, ledger);
        }
        let spans = match self.stage {
            Stage::Clear(unit) => self.clear(unit, (region, format), entries, ledger),
            Stage::Facts => self.write_facts(region, format, ledger)?,
            Stage::Header(copy) => {
                self.stage = match copy {
                    0 => Stage::Header(1),
                    _ => Stage::Done,
                };
                let told = (self.kind, self.next.generation);
                vec![segment::write_copy(
                    region,
                    format,
                    self.next.number,
                    told,
                    copy,
                )]
            }
            Stage::Done => return Ok(Turned::Done(self.next)),
        };
        Ok(Turned::Persist(spans))
    }

    /// Clears the first word of each whole entry that counts or may count in a later history, wherever it stands: a copy of one inside a
    /// value that was here before would take its place from an entry that arrives there. All others are old for good.
    fn clear(
        &mut self,
        from: u32,
        (region, format): (&dyn Region, &LogFormat),
        entries: &dyn EntryFormat,
        ledger: &Ledger,
    ) -> Vec<Span> {
        let number = self.next.number;
        let mut spans = match from {
            0 => clear_forged(region, format, number),
            _ => Vec::new(),
        };
        let from = from.max(first_unit(format));
        let until = format.segment_units().min(from + UNITS_A_STEP);
        let place = (region, format, number);
        let may_count = |entry: &EntryFacts| ledger.lineages().may_count(entry);
        let mut look = Look::new(place, entries, &may_count);
        for unit in from..until {
            if look.at(unit).is_some() {
                region.store(format.position(number, unit), 0);
                spans.push(Span::new(format.position(number, unit), UNIT_SIZE));
            } else if let Some(line) = look.stale_at(unit) {
                self.stale.push(unit, &line);
            }
        }
        self.stage = match until < format.segment_units() {
            true => Stage::Clear(until),
            false => Stage::Facts,
        };
        spans
    }

    fn write_facts(
        &mut self,
        region: &dyn Region,
        format: &LogFormat,
        ledger: &mut Ledger,
    ) -> Result<Vec<Span>, LedgerFull> {
        let next = &self.next;
        let mut spans = Vec::new();
        if self.kind == SegmentKind::Appends {
            let span = ledger.write(region, format, next)?;
            if !mutant!(LedgerNotPersisted) {
                spans.push(span);
            }
        }
        if next.seal_serial > 0 {
            spans.push(next.write_first_seal(region, format));
        }
        self.stage = Stage::Header(0);
        Ok(spans)
    }
}

/// Refuses to give up the segment with the newest ledger: the floors would fall.
fn keep_home(number: u32, ledger: &Ledger) {
    assert!(
        ledger.home() != Some(number),
        "segment {number} has the newest ledger"
    );
}
