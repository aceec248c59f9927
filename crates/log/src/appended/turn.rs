//! The turn of a segment to one that appends fill, and back to a blank segment of records.
//!
//! ```text
//!   to appends:   stray entries cleared           | seal and ledger of the next generation | first header | second header | posted
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

/// The number of units that one step looks at.
const UNITS_A_STEP: u32 = 4096;

/// A segment that changes its kind, step by step. The caller persists the spans of a step before it takes the next
/// step. A crash leaves the segment in one kind and generation or the other. The owner may begin an interrupted turn
/// again.
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
    /// The next copy of the header.
    Header(usize),
    Done,
}

/// Writes both copies of the header of a segment that appends fill, after one copy was found damaged. Returns the spans
/// that the caller must persist.
pub fn mend_header(region: &dyn Region, format: &LogFormat, state: &SegmentState) -> [Span; 2] {
    let told = (SegmentKind::Appends, state.generation);
    [0, 1].map(|copy| segment::write_copy(region, format, state.number, told, copy))
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turned {
    /// Persist these spans, and take the next step.
    Persist(Vec<Span>),
    /// The segment has its new kind, durably.
    Done(SegmentState),
}

impl Turn {
    /// Turns a blank segment into one that appends fill. `before` is its state, if it was used before. `heritage` is
    /// the log's memory of freed segments, which each change of a generation carries on.
    ///
    /// # Panics
    /// If the generations of the segment are [used up](SegmentState::may_be_used_again), or `before` says that records
    /// are in it.
    pub fn to_appends(number: u32, before: Option<&SegmentState>, heritage: Heritage) -> Self {
        assert!(
            before.is_none_or(SegmentState::is_blank),
            "segment {number} holds records"
        );
        Self::new(number, before, heritage, SegmentKind::Appends)
    }

    /// Turns a segment that appends have filled into a blank one of records. Its entries are
    /// [settled](super::Buffers::reusable), and no peer still appends to it.
    ///
    /// # Panics
    /// If the generations of the segment are used up, or the segment is the [home](Ledger::home) of the newest ledger.
    /// The caller writes a ledger elsewhere first.
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

    /// The old entries in the segment, after a turn to appends is done. They are no news, and
    /// [`Buffers::posted_over`](super::Buffers::posted_over) takes them.
    pub fn take_stale(&mut self) -> Stale {
        std::mem::take(&mut self.stale)
    }

    /// Takes a step. `ledger` says which entries count, and the segment gets a copy of `ledger`.
    ///
    /// # Errors
    /// The ledger has more rows than the segment keeps. The segment keeps its kind.
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

    /// Clears the first word of each whole entry that counts or may count in a later history, at any place: a copy of
    /// such an entry inside an old value would take the place of an entry that arrives there. All other entries remain
    /// old.
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
            if look.at_before(unit, until).is_some() {
                region.store(format.position(number, unit), 0);
                spans.push(Span::new(format.position(number, unit), UNIT_SIZE));
            } else if let Some(line) = look.stale_at_before(unit, until) {
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
