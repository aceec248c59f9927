//! The rules that distinguish a crash from damage.
//!
//! Below the seal, count and XOR of the commit tags must equal those of the seal. Above it, the stamped records form a
//! chain: each names its predecessor, and the first names none and states that the seal's end was durable. A link to a
//! record that was not found shows a gap: at least that record was stamped and is missing. All records below the
//! highest `durable` of the chain had been persisted.
//!
//! ```text
//!     seal end    a        b                 d        e
//!        |     [record] [record]  (gap)  [record] [record]
//!                              ^             '-> its previous names something in the gap
//!                              the gap starts at the end of b
//! ```
//!
//! **Lost or torn?** Let `b` be the last record before the first gap. If some `durable` found is greater than the end
//! of `b`, a persisted record is missing: `durable` is the end of a record that was persisted together with everything
//! stamped before it. That record starts at or above the end of `b`. The record that was stamped next after `b` also
//! starts there, and lies no higher. This record is missing, since the record found next does not name `b`. Otherwise
//! everything that was persisted when any of these records was stamped is there, and the gap lies in the last batch,
//! which was never acknowledged.
//!
//! The rules cannot see one case: a last batch that was acknowledged, and damaged before anything
//! else is stamped or sealed in the segment, looks like a torn one.

use stonecast_base::{Corruption, mutant};

use crate::format::{LogFormat, SEGMENT_HEADER_UNITS};
use crate::seal::{Heritage, Seal};
use crate::state::SegmentState;
use crate::walk::Found;

/// Place of a judged segment, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub format: &'a LogFormat,
    pub file: &'a str,
    pub number: u32,
}

impl Place<'_> {
    pub fn corruption(
        &self,
        what: &'static str,
        unit: u32,
        found: String,
        expected: String,
    ) -> Corruption {
        let offset = self.format.position(self.number, unit);
        Corruption {
            what: what.into(),
            file: self.file.to_owned().into(),
            offset,
            found,
            expected,
        }
    }
}

/// Damage that no crash explains, and the number of records known to be lost by it.
pub(crate) struct Loss {
    pub records: u64,
    pub corruption: Corruption,
}

/// Judges a segment. Takes each record in ascending order, and continues after a loss as far as possible.
pub(crate) struct Judge<'a> {
    place: Place<'a>,
    seal: Option<Seal>,
    state: SegmentState,
    /// Whether the records below the seal were compared with the seal.
    crossed: bool,
    /// The lower bound of the next record's sequence, or the moment at which it was moved.
    next_sequence: u64,
    durable: u32,
    /// End of the last record before the first gap above the seal that is not known to be a loss.
    gap: Option<u32>,
    /// The unit to report for a loss below the seal: the first at which something seems to be missing.
    suspect: Option<u32>,
}

impl<'a> Judge<'a> {
    /// Judges a segment from its start, or from the unit up to which a checkpoint knows it.
    pub fn new(
        place: Place<'a>,
        seal: Option<Seal>,
        known: SegmentState,
    ) -> Result<Self, Corruption> {
        let (serial, sealed_end) =
            seal.map_or((0, SEGMENT_HEADER_UNITS), |seal| (seal.serial, seal.end));
        let crossed = serial == known.seal_serial;
        let fits = if crossed {
            known.end >= sealed_end && known.seal_end == sealed_end
        } else {
            known.end <= sealed_end
        };
        let possible = SEGMENT_HEADER_UNITS <= known.end
            && known.end <= place.format.segment_units()
            && known.durable <= known.end;
        let fits = fits && possible && known.last < known.end;
        if serial < known.seal_serial || !fits {
            let unit = seal.map_or(1, |seal| seal.slot_unit());
            let found = format!("seal {serial} that ends at unit {sealed_end}");
            let expected = format!(
                "seal {} that ends at unit {}, or a later one above unit {}: the checkpoint knows it",
                known.seal_serial, known.seal_end, known.end
            );
            return Err(place.corruption("segment seal", unit, found, expected));
        }
        let durable = known.durable.max(known.seal_end);
        Ok(Self {
            place,
            seal,
            state: known,
            crossed,
            next_sequence: 1,
            durable,
            gap: None,
            suspect: None,
        })
    }

    /// The first unit to judge.
    pub fn start(&self) -> u32 {
        self.state.end
    }

    /// Unit above which records are chained.
    fn sealed_end(&self) -> u32 {
        self.seal.map_or(SEGMENT_HEADER_UNITS, |seal| seal.end)
    }

    /// Start of the gap that was accepted as torn, if there is one.
    pub fn gap(&self) -> Option<u32> {
        self.gap
    }

    /// Judges the next record.
    pub fn record(&mut self, found: &Found<'_>) -> Result<(), Loss> {
        let (_, unit) = self.place.format.locate(found.position);
        let header = &found.header;
        let mut verdict = Ok(());
        if !self.crossed && unit >= self.sealed_end() {
            verdict = self.cross();
        }
        let written_at = header.written_at();
        if written_at < self.next_sequence {
            let (found, expected) = (
                written_at.to_string(),
                format!("at least {}", self.next_sequence),
            );
            verdict = verdict.and(Err(self.loss(0, "record sequence", unit, found, expected)));
        }
        let link = if self.crossed {
            self.link(unit, header.previous(), header.durable())
        } else {
            self.below(header.previous());
            Ok(())
        };
        // Several records are moved at one moment; each write has a sequence of its own.
        let next = if header.moved_at().is_some() {
            written_at
        } else {
            written_at.saturating_add(1)
        };
        self.next_sequence = self.next_sequence.max(next);
        self.state.end = unit + header.size_units();
        self.state.last = unit;
        self.state.count += 1;
        self.state.xor ^= header.commit_tag();
        verdict.and(link)
    }

    /// Notes a stamped header whose record is not whole. Returns its unit if it lies above the
    /// seal: below, the seal decides.
    pub fn torn(&mut self, position: u64) -> Option<u32> {
        let (_, unit) = self.place.format.locate(position);
        if unit < self.sealed_end() {
            self.suspect = self.suspect.or(Some(unit));
            return None;
        }
        Some(unit)
    }

    /// Applies the rules that need all records.
    pub fn finish(&mut self) -> Result<(), Loss> {
        if self.crossed { Ok(()) } else { self.cross() }
    }

    /// The state of the segment as found.
    pub fn into_state(self) -> SegmentState {
        let (seal_serial, seal_end) = self
            .seal
            .map_or((0, SEGMENT_HEADER_UNITS), |seal| (seal.serial, seal.end));
        let heritage = self.seal.map_or(Heritage::default(), |seal| seal.heritage);
        SegmentState {
            seal_serial,
            seal_end,
            heritage,
            durable: 0,
            ..self.state
        }
    }

    /// Judges a record below the seal: its link is only a hint.
    fn below(&mut self, previous: u32) {
        if previous != 0 && previous != self.state.last {
            self.suspect = self.suspect.or(Some(self.state.end));
        }
    }

    /// Compares the records below the seal with it, after the last of them.
    fn cross(&mut self) -> Result<(), Loss> {
        self.crossed = true;
        let seal = self.seal.expect("without a seal there is nothing to cross");
        let found = self.state;
        self.state.last = 0;
        self.durable = seal.end;
        if (found.count, found.xor) == (seal.count, seal.xor) || mutant!(SealNotCompared) {
            return Ok(());
        }
        let unit = self.suspect.unwrap_or(found.end);
        let missing = u64::from(seal.count.saturating_sub(found.count)).max(1);
        Err(self.loss(
            missing,
            "sealed records",
            unit,
            format!("{} records with XOR {:#018x}", found.count, found.xor),
            format!(
                "{} records with XOR {:#018x} below unit {} (seal {})",
                seal.count, seal.xor, seal.end, seal.serial
            ),
        ))
    }

    /// Judges a record above the seal.
    fn link(&mut self, unit: u32, previous: u32, durable: u32) -> Result<(), Loss> {
        if mutant!(LinksNotChecked) {
            return Ok(());
        }
        let (last, end, sealed_end) = (
            self.state.last,
            self.state.end.max(self.sealed_end()),
            self.sealed_end(),
        );
        if previous == 0 && durable != sealed_end {
            self.gap = None;
            let found = format!("the first record above a seal that ends at unit {durable}");
            let expected = format!("a record above the seal that ends at unit {sealed_end}");
            return Err(self.loss(0, "record link", unit, found, expected));
        }
        let linked = previous == last;
        if !linked && !(end..unit).contains(&previous) {
            let found = format!("a link to unit {previous}");
            return Err(self.loss(
                0,
                "record link",
                unit,
                found,
                format!("unit {last}, or one from {end} to {unit}"),
            ));
        }
        if durable < self.durable || durable > unit {
            let found = format!("durable up to unit {durable}");
            return Err(self.loss(
                0,
                "record link",
                unit,
                found,
                format!("a unit from {} to {unit}", self.durable),
            ));
        }
        self.durable = durable;
        if !linked {
            self.gap = self.gap.or(Some(end));
        }
        match self.gap {
            Some(gap) if durable > gap => {
                self.gap = None;
                let found = if linked {
                    "no record that is whole".to_owned()
                } else {
                    format!("no record up to unit {unit}")
                };
                let expected = format!(
                    "a record: all below unit {durable} were durable when the one at unit {unit} was stamped"
                );
                Err(self.loss(1, "record", gap, found, expected))
            }
            _ => Ok(()),
        }
    }

    fn loss(
        &self,
        records: u64,
        what: &'static str,
        unit: u32,
        found: String,
        expected: String,
    ) -> Loss {
        Loss {
            records,
            corruption: self.place.corruption(what, unit, found, expected),
        }
    }
}
