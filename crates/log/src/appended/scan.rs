//! The search for entries in a segment, while appends fill the segment and afterwards.
//!
//! ```text
//!   | entry | entry |  open  | entry |  open | entry |            room               |
//!                   may still arrive, or never       ^ reach      ^ reach + under way
//! ```
//!
//! Senders place entries side by side, and in any order of time: entries of other senders may stand behind a place that
//! is still empty. A scan therefore keeps the *open* units, which have no entry and lie below the last entry found, and
//! looks at them again and again, with bounded work in each step. A scan reports an entry when it first finds the entry
//! whole, and waits for no open units before it.
//!
//! A whole entry may begin in open units and cover units of an entry that was reported: the reported one lay inside its
//! value. The reported entry was genuine all the same, and its version shows that it is no news, or that it is early.

use std::ops::Range;

use stonecast_media::Region;

use super::entry::{EntryFacts, EntryFormat};
use super::ledger::first_unit;
use super::lineages::Lineages;
use super::stale::Stale;
use crate::format::{LogFormat, UNIT_SIZE};

/// A whole entry.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Bytes from the start of the log.
    pub position: u64,
    /// The facts in the header of the entry.
    pub facts: EntryFacts,
    /// A copy of the entry.
    pub bytes: &'a [u8],
}

/// Bounds of one step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Units to look at.
    pub units: u32,
    /// Units of these in which no entry was found, apart from the place behind the last entry: entries seldom arrive
    /// there first. A closed segment has no such bound.
    pub open: u32,
    /// Units behind the last entry in which something may have arrived: the credits of senders.
    pub under_way: u32,
}

impl Bounds {
    /// Bounds of a step that looks for entries in all places alike.
    pub fn even(units: u32, under_way: u32) -> Self {
        Self {
            units,
            open: units,
            under_way,
        }
    }
}

/// The progress of a search in one segment.
#[derive(Clone, Debug)]
pub struct ArrivalScan {
    number: u32,
    first: u32,
    units: u32,
    /// The unit after the last entry found.
    reach: u32,
    /// Open units below the reach, ascending, each range followed by an entry.
    open: Vec<Range<u32>>,
    /// The unit to look at next in this round over the open units.
    cursor: u32,
    /// The end of the round. It stays where it is while the reach moves on, so that each round ends.
    round_end: u32,
    /// The number of rounds that have ended. A round that is over before a step begins counts again.
    rounds: u64,
    /// Whether all arrivals have ended.
    closed: bool,
    settled: bool,
    /// The entries that lay here before; `None`: unknown, so only entries that count are news.
    stale: Option<Stale>,
}

impl ArrivalScan {
    /// The search in segment `number`, which was just posted, or was left by an earlier run.
    pub fn new(format: &LogFormat, number: u32) -> Self {
        let first = first_unit(format);
        Self {
            number,
            first,
            units: format.segment_units(),
            reach: first,
            open: Vec::new(),
            cursor: format.segment_units(),
            round_end: first,
            rounds: 0,
            closed: false,
            settled: false,
            stale: None,
        }
    }

    /// Has the scan also find arrived entries that the floors settle: all entries but `stale`.
    #[must_use]
    pub fn finding_settled(self, stale: Stale) -> Self {
        Self {
            stale: Some(stale),
            ..self
        }
    }

    /// Notes that nothing lands in the segment from now on: its buffer has come back, or its senders are gone. The next
    /// steps look once more at each unit that is open, and then the scan is [settled](Self::is_settled).
    pub fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.cursor = self.first;
            self.round_end = self.units;
        }
    }

    /// Whether every entry of the segment was reported, and the open units stay empty.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// The number of rounds after which a whole round has passed since this call: the scan has then found everything
    /// that lay in open units at this moment, within the bound of each step.
    pub(super) fn searched_at(&self) -> u64 {
        // The round under way may have passed some units already.
        self.rounds + 2
    }

    /// Whether `rounds` rounds have ended, or the scan is settled.
    pub(super) fn has_searched(&self, rounds: u64) -> bool {
        self.settled || self.rounds >= rounds
    }

    /// The unit after the last entry found.
    pub fn reach(&self) -> u32 {
        self.reach
    }

    /// The units below the reach that have no entry, in ascending order. Once the scan is settled, they remain holes.
    pub fn open_units(&self) -> &[Range<u32>] {
        &self.open
    }

    /// Looks at units within `bounds` (the last entry as a whole), and passes each found entry that counts to `visit`.
    /// Passes settled entries on as well, if the scan [finds](Self::finding_settled) them. Returns the number of
    /// entries found.
    ///
    /// `lineages` are those at which the segment was posted, or later ones.
    pub fn step(
        &mut self,
        (region, format): (&dyn Region, &LogFormat),
        entries: &dyn EntryFormat,
        lineages: &Lineages,
        bounds: Bounds,
        visit: &mut dyn FnMut(&Arrival<'_>),
    ) -> u64 {
        let place = (region, format, self.number);
        let stale = self.stale.take();
        let counts = |entry: &EntryFacts| lineages.counts(entry);
        let mut look = Look::new(place, entries, &counts);
        look.stale = stale.as_ref();
        let mut found = 0;
        // Entries mostly arrive behind the last one. A half of the budget is for entries in open units, and at least a
        // quarter for the round over them, which comes to an end.
        while !self.closed && look.looked < bounds.units / 2 && self.reach < self.units {
            if self
                .take_at(&mut look, (self.reach, self.units), visit)
                .is_none()
            {
                break;
            }
            found += 1;
        }
        let units = bounds.units / 2 + bounds.units / 4;
        found += self.look_at_gaps(&mut look, units, visit);
        // A closed segment is looked at once more and never again, and its streams go on behind its last entries.
        let open = if self.closed {
            bounds.units
        } else {
            bounds.open
        };
        let budget = bounds.units.min(look.looked.saturating_add(open));
        let (start, mut began) = (self.cursor, false);
        while look.looked < budget && !self.settled {
            let Some(unit) = self.open_from(self.cursor) else {
                self.settled = self.closed;
                self.rounds += 1;
                if began {
                    self.cursor = self.units;
                    break;
                }
                (self.cursor, began) = (self.first, true);
                self.round_end = self.units.min(self.reach.saturating_add(bounds.under_way));
                continue;
            };
            if began && unit >= start {
                break;
            }
            self.cursor = unit + 1;
            // A round that has come to its end goes on up to the place where this step began.
            let last = if began { start } else { self.round_end };
            let until = last.min(unit.saturating_add(budget - look.looked));
            let until = until.min(self.open_until(unit));
            if let Some(end) = self.take_at(&mut look, (unit, until), visit) {
                found += 1;
                self.cursor = end;
            }
        }
        self.stale = stale.filter(|_| !self.settled);
        found
    }

    /// Looks at the beginnings of the latest gaps, and behind each entry found there. An entry that another one has
    /// overtaken mostly lies there by the next step, and all that follows in its stream waits for that entry. A round
    /// also goes over all places behind the last entry, so it comes to the entry far later. Returns the number of
    /// entries found.
    fn look_at_gaps(
        &mut self,
        look: &mut Look<'_>,
        units: u32,
        visit: &mut dyn FnMut(&Arrival<'_>),
    ) -> u64 {
        let (mut found, mut empty) = (0, 0);
        let mut gaps = self.open.len();
        while gaps > 0 && empty < GAPS_MAX && look.looked < units {
            let gap = self.open[gaps - 1].clone();
            let first = (gap.start, gap.start + 1);
            if self.take_at(look, first, visit).is_none() {
                (gaps, empty) = (gaps - 1, empty + 1);
                continue;
            }
            found += 1;
            gaps = self.open.partition_point(|range| range.start < gap.end);
        }
        found
    }

    /// Looks at `unit`, where a message has arrived, and passes an entry there to `visit`. The message is no entry that
    /// lay there before. Entries that the floors settle pass as in [`ArrivalScan::step`].
    pub fn look_at(
        &mut self,
        (region, format): (&dyn Region, &LogFormat),
        entries: &dyn EntryFormat,
        lineages: &Lineages,
        unit: u32,
        visit: &mut dyn FnMut(&Arrival<'_>),
    ) {
        if self.settled || !self.is_open(unit) {
            return;
        }
        let finds_settled = self.stale.is_some();
        let is_wanted = |entry: &EntryFacts| finds_settled || lineages.counts(entry);
        let mut look = Look::new((region, format, self.number), entries, &is_wanted);
        self.take_at(&mut look, (unit, unit + 1), visit);
    }

    /// Takes the entry at `unit`, if there is one, and returns the unit behind it. The look goes on before `end`.
    fn take_at(
        &mut self,
        look: &mut Look<'_>,
        (unit, end): (u32, u32),
        visit: &mut dyn FnMut(&Arrival<'_>),
    ) -> Option<u32> {
        let arrival = look.at_before(unit, end)?;
        visit(&arrival);
        let count = units_of(&arrival.facts);
        self.cover(unit, count);
        Some(unit + count)
    }

    /// Whether no entry that was found covers `unit`.
    fn is_open(&self, unit: u32) -> bool {
        let next = self.open.partition_point(|range| range.end <= unit);
        let is_gap = self.open.get(next).is_some_and(|it| it.contains(&unit));
        is_gap || (self.reach..self.units).contains(&unit)
    }

    /// The first unit at or above `from` that has to be looked at in this round.
    fn open_from(&self, from: u32) -> Option<u32> {
        let next = self.open.partition_point(|range| range.end <= from);
        let unit = match self.open.get(next) {
            Some(range) => range.start.max(from),
            None => from.max(self.reach),
        };
        (unit < self.round_end).then_some(unit)
    }

    /// The end of the open units of this round that begin with `unit`.
    fn open_until(&self, unit: u32) -> u32 {
        let next = self.open.partition_point(|range| range.end <= unit);
        let range = self.open.get(next).filter(|range| range.contains(&unit));
        range.map_or(self.round_end, |range| range.end)
    }

    /// Marks the units of an entry as decided.
    fn cover(&mut self, unit: u32, count: u32) {
        let end = unit + count;
        if unit > self.reach {
            self.open.push(self.reach..unit);
        }
        self.reach = self.reach.max(end);
        let from = self.open.partition_point(|range| range.end <= unit);
        let to = self.open.partition_point(|range| range.start < end);
        if from < to {
            let (first, last) = (self.open[from].start, self.open[to - 1].end);
            let rest = [first..unit, end..last];
            self.open
                .splice(from..to, rest.into_iter().filter(|range| !range.is_empty()));
        }
    }
}

/// Gaps without an entry that one step begins with: gaps that a dead sender has left stay.
const GAPS_MAX: u32 = 4;

/// The number of units that an entry takes.
fn units_of(facts: &EntryFacts) -> u32 {
    facts.size.div_ceil(UNIT_SIZE as u32)
}

/// Looks at places of entries. A look copies the bytes once, judges the copy and passes the copy on.
pub(super) struct Look<'r> {
    region: &'r dyn Region,
    format: &'r LogFormat,
    number: u32,
    entries: &'r dyn EntryFormat,
    /// Whether the look is for this entry.
    is_wanted: &'r dyn Fn(&EntryFacts) -> bool,
    /// If set, the look is for all entries but these, wanted or not: one of them may be wanted again when the node has
    /// dropped a copy and begins again.
    stale: Option<&'r Stale>,
    bytes: Vec<u8>,
    /// Lines that were copied together, and the unit of the first one.
    lines: (u32, Vec<u8>),
    /// The number of units copied so far.
    looked: u32,
}

/// Lines that are copied together where a look goes on with the next unit: one wait for the medium brings all of them.
const LINES_MAX: u32 = 16;

impl<'r> Look<'r> {
    pub fn new(
        (region, format, number): (&'r dyn Region, &'r LogFormat, u32),
        entries: &'r dyn EntryFormat,
        is_wanted: &'r dyn Fn(&EntryFacts) -> bool,
    ) -> Self {
        Self {
            region,
            format,
            number,
            entries,
            is_wanted,
            stale: None,
            bytes: Vec::new(),
            lines: (0, Vec::new()),
            looked: 0,
        }
    }

    /// The line at `unit`, if it begins an entry that is not wanted. The look goes on with the units behind it and
    /// before `end`.
    pub fn stale_at_before(&mut self, unit: u32, end: u32) -> Option<[u8; UNIT_SIZE as usize]> {
        let line = self.line_before(unit, end);
        let facts = self.entries.header(&line)?;
        (!(self.is_wanted)(&facts)).then_some(line)
    }

    /// The wanted whole entry at `unit`, if there is one. The look goes on with the units behind `unit` and before
    /// `end`. The look reads no body of an unwanted entry: a segment that is used again is full of them. The bytes of a
    /// line were read at some moment since the look began.
    pub fn at_before(&mut self, unit: u32, end: u32) -> Option<Arrival<'_>> {
        let line = self.line_before(unit, end);
        self.at_line(unit, &line)
    }

    fn at_line(&mut self, unit: u32, line: &[u8; UNIT_SIZE as usize]) -> Option<Arrival<'_>> {
        let position = self.format.position(self.number, unit);
        self.looked += 1;
        let size = self.judge(unit, line)?.size;
        let units = size.div_ceil(UNIT_SIZE as u32);
        if units > self.format.segment_units() - unit {
            return None;
        }
        self.looked += units;
        self.bytes
            .resize((u64::from(units) * UNIT_SIZE) as usize, 0);
        self.region.read(position, &mut self.bytes);
        // The first line may have changed since the first look.
        let line = self.bytes.first_chunk().expect("an entry has a line");
        let facts = self.judge(unit, line);
        let facts = facts.filter(|facts| facts.size == size)?;
        let bytes = &self.bytes[..size as usize];
        self.entries.is_whole(bytes).then_some(Arrival {
            position,
            facts,
            bytes,
        })
    }

    fn line_before(&mut self, unit: u32, end: u32) -> [u8; UNIT_SIZE as usize] {
        const LINE: usize = UNIT_SIZE as usize;
        let (first, lines) = &mut self.lines;
        let known = unit
            .checked_sub(*first)
            .map(|before| before as usize * LINE)
            .filter(|&start| start < lines.len());
        let start = known.unwrap_or_else(|| {
            let goes_on = unit == *first + (lines.len() / LINE) as u32;
            let count = LINES_MAX.min(end.saturating_sub(unit)).max(1);
            lines.resize(count as usize * LINE, 0);
            let position = self.format.position(self.number, unit);
            self.region.read(position, lines);
            // A look that has gone this far probably needs the next lines, too.
            if goes_on && unit + 2 * count <= end {
                let size = lines.len() as u64;
                self.region.prefetch(position + size, size);
            }
            *first = unit;
            0
        });
        *lines[start..]
            .first_chunk()
            .expect("whole lines are copied")
    }

    /// The facts in the line at `unit`, if a wanted entry begins with it.
    fn judge(&self, unit: u32, line: &[u8; UNIT_SIZE as usize]) -> Option<EntryFacts> {
        let facts = self.entries.header(line)?;
        let is_wanted = match self.stale {
            Some(stale) => !stale.holds(unit, line),
            None => (self.is_wanted)(&facts),
        };
        (u64::from(facts.size) >= UNIT_SIZE && is_wanted).then_some(facts)
    }
}
