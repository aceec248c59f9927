//! Witnesses: a statement of each segment about its neighbour, so that the loss of a whole segment
//! is noticed.
//!
//! A segment proves its own bytes, but not its existence: a cleared segment, or an older copy of
//! itself in its place, is consistent. So the segment before it (for the first one, the last) keeps
//! one word in the second copy of its header: *in this generation, everything below this unit was
//! durable*.
//!
//! ```text
//!   bit   0            24                54        63
//!         unit less 1 | generation      | check   |
//! ```
//!
//! The word is a lower bound, stored by one 8-byte store after the persist that made it true. A crash leaves an older
//! word or this one, and neither claims too much, so the word needs no order with other stores. The check binds it to
//! pool and segment.

use stonecast_base::{Corruption, Span, hash};
use stonecast_media::Region;

use crate::format::LogFormat;
use crate::judge::Place;
use crate::segment::WITNESS_UNIT;
use crate::state::SegmentState;

/// Offset of the word in the second copy of a segment's header.
pub(crate) const WITNESS_OFFSET: u64 = 40;
const GENERATION_SHIFT: u32 = 24;
const CHECK_SHIFT: u32 = 54;

/// The knowledge of one segment about another: everything below `unit` was durable when the segment
/// had this generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The generation, from 1.
    pub generation: u32,
    /// The unit, from 4 (nothing was durable) to the number of units of a segment.
    pub unit: u32,
}

impl Witness {
    /// The witness of a segment in this state; `None` if there is nothing to lose.
    pub fn of(state: &SegmentState) -> Option<Self> {
        let is_untouched = state.generation == 1 && state.is_blank();
        (!is_untouched).then_some(Self {
            generation: state.generation,
            unit: state.durable,
        })
    }

    /// The segment that keeps the witness of segment `number`.
    pub fn keeper(format: &LogFormat, number: u32) -> u32 {
        number.checked_sub(1).unwrap_or(format.segment_count - 1)
    }

    /// The line of the log that holds the witness of segment `number`.
    pub fn line(format: &LogFormat, number: u32) -> Span {
        format.span(Self::keeper(format, number), WITNESS_UNIT, WITNESS_UNIT + 1)
    }

    /// The word for a witness of segment `number`, or for none.
    pub fn word(witness: Option<Self>, format: &LogFormat, number: u32) -> u64 {
        witness.map_or(0, |Self { generation, unit }| {
            let told = u64::from(unit - 1) | u64::from(generation) << GENERATION_SHIFT;
            told | check(told, format.uuid, number)
        })
    }

    /// The stored word in the place of the witness of segment `number`, valid or not.
    pub fn load(region: &dyn Region, format: &LogFormat, number: u32) -> u64 {
        region.load(Self::line(format, number).offset + WITNESS_OFFSET)
    }

    /// Stores `word` as the witness of segment `number` and returns the line that holds it. The
    /// caller has persisted everything that the word covers, and persists the line at any time:
    /// until then a power cut may bring an older word back.
    pub fn store(region: &dyn Region, format: &LogFormat, number: u32, word: u64) -> Span {
        let line = Self::line(format, number);
        region.store(line.offset + WITNESS_OFFSET, word);
        line
    }

    /// The witness in `word` of segment `number`; `None` if the word is not valid.
    fn parse(word: u64, uuid: u128, number: u32) -> Option<Self> {
        let told = word & ((1 << CHECK_SHIFT) - 1);
        let witness = Self {
            generation: (told >> GENERATION_SHIFT) as u32,
            unit: (told as u32 & ((1 << GENERATION_SHIFT) - 1)) + 1,
        };
        (word != 0 && word == told | check(told, uuid, number)).then_some(witness)
    }
}

/// The check of a word with the other bits `told`, in its place in the word.
fn check(told: u64, uuid: u128, number: u32) -> u64 {
    let mut bound = [0; 28];
    bound[..16].copy_from_slice(&uuid.to_be_bytes());
    bound[16..20].copy_from_slice(&number.to_le_bytes());
    bound[20..].copy_from_slice(&told.to_le_bytes());
    hash::xxh3_64(0, &bound) >> CHECK_SHIFT << CHECK_SHIFT
}

/// Whether `word` may stand in a header whose pool is `uuid`, as the witness of segment `number`.
pub(crate) fn is_possible(word: u64, uuid: u128, number: u32) -> bool {
    word == 0 || Witness::parse(word, uuid, number).is_some()
}

/// Compares the result of a scan of segment `number` with the witness in the segment before it.
/// `found` is the generation, and the unit up to which no record is missing; `None`: the segment
/// was never used. The error says that the segment was lost, or that an older copy of it came back.
/// Do not call it for a log that may lack durable records.
pub fn check_witness(
    region: &dyn Region,
    format: &LogFormat,
    file: &str,
    number: u32,
    found: Option<Witness>,
) -> Result<(), Corruption> {
    let word = Witness::load(region, format, number);
    let Some(told) = Witness::parse(word, format.uuid, number) else {
        return Ok(());
    };
    let is_older = |found: Witness| (found.generation, found.unit) < (told.generation, told.unit);
    if found.is_some_and(|found| !is_older(found)) {
        return Ok(());
    }
    let place = Place {
        format,
        file,
        number,
    };
    let describe = |witness: Witness| {
        let Witness { generation, unit } = witness;
        format!("generation {generation} with all records below unit {unit}")
    };
    Err(place.corruption(
        "segment",
        0,
        found.map_or_else(|| "a segment that was never used".to_owned(), describe),
        format!(
            "at least {}: segment {} says so",
            describe(told),
            Witness::keeper(format, number)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::format;
    use crate::memory::Memory;
    use crate::record::GENERATION_MAX;

    const UNITS_MAX: u32 = 1 << 24;

    #[test]
    fn a_witness_is_read_back_at_both_ends_of_each_field() {
        let format = format(4096, 2);
        for (generation, unit) in [(1, 4), (1, UNITS_MAX), (GENERATION_MAX, 4), (7, 99)] {
            let witness = Witness { generation, unit };
            for number in 0..2 {
                let word = Witness::word(Some(witness), &format, number);
                assert_eq!(Witness::parse(word, format.uuid, number), Some(witness));
            }
        }
        assert_eq!(Witness::word(None, &format, 1), 0);
        assert_eq!(Witness::parse(0, format.uuid, 1), None);
    }

    /// Needs the check over pool, number and the other bits.
    #[test]
    fn a_witness_of_another_segment_or_pool_and_most_damaged_ones_are_invalid() {
        let format = format(4096, 2);
        let mut believed = 0;
        for unit in 4..1004 {
            let told = Some(Witness {
                generation: 3,
                unit,
            });
            let word = Witness::word(told, &format, 1);
            believed += u32::from(Witness::parse(word, format.uuid, 0).is_some());
            believed += u32::from(Witness::parse(word, format.uuid + 1, 1).is_some());
            believed +=
                u32::from(Witness::parse(word ^ 1 << (unit % 64), format.uuid, 1).is_some());
        }
        assert!(believed < 15, "one in a thousand: {believed} of 3000");
    }

    #[test]
    fn each_segment_has_its_witness_in_the_previous_one_and_the_first_in_the_last() {
        let format = format(4096, 3);
        let keepers = [0, 1, 2].map(|number| Witness::keeper(&format, number));
        assert_eq!(keepers, [2, 0, 1]);
        assert_eq!(Witness::line(&format, 0), Span::new(2 * 4096 + 192, 64));
    }

    #[test]
    fn a_scan_may_find_a_newer_state_than_the_witness_and_never_an_older_one() {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        let check = |found: Option<(u32, u32)>| {
            let found = found.map(|(generation, unit)| Witness { generation, unit });
            check_witness(&memory, &format, "log", 1, found).is_ok()
        };
        assert!(
            check(None) && check(Some((1, 4))),
            "there is no witness yet"
        );
        let told = Witness {
            generation: 5,
            unit: 20,
        };
        let word = Witness::word(Some(told), &format, 1);
        let line = Witness::store(&memory, &format, 1, word);
        assert_eq!(
            (line, Witness::load(&memory, &format, 1)),
            (Span::new(192, 64), word)
        );
        for (found, passes) in [
            (None, false),
            (Some((4, 60)), false),
            (Some((5, 19)), false),
            (Some((5, 20)), true),
            (Some((5, 21)), true),
            (Some((6, 4)), true),
        ] {
            assert_eq!(check(found), passes, "{found:?}");
        }
        Witness::store(&memory, &format, 1, word ^ 1);
        assert!(check(None), "an invalid word says nothing");
    }
}
