//! What both sides know of publication by clients: reports, and the ring that they lie in.
//!
//! ```text
//!   ring   | taken | ...  64 bytes | report | report | ...     REPORTS times 32 bytes
//!            server                  client
//!
//!   report | word before | word after | sequence, sizes, kind | check |
//! ```
//!
//! A client says what it is about to do before it does it, in the same batch. A report counts when its check fits its number,
//! counted from 1, so that whatever order its words arrive in it is whole, and one of an earlier round is none. `taken` is how
//! many the server has taken; a client has at most [`REPORTS`] more than that.

use crate::wire::Word;

/// Reports that a ring holds.
pub(crate) const REPORTS: u64 = 16384;
/// Bytes of a report.
pub(crate) const REPORT_BYTES: usize = 32;
/// Where the reports begin.
const REPORTS_OFFSET: u64 = 64;
/// Bytes of a ring.
pub(crate) const RING_SIZE: u64 = REPORTS_OFFSET + REPORTS * REPORT_BYTES as u64;

const SEQUENCE_BITS: u32 = 48;
const UNITS_BITS: u32 = 7;
const UNITS_MASK: u64 = (1 << UNITS_BITS) - 1;
const UNITS_AFTER_SHIFT: u32 = SEQUENCE_BITS + UNITS_BITS;
const TAKEN_BACK: u64 = 1 << 62;
/// Odd numbers that spread words and number over the check.
const CHECK_FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// What a client is about to do, or has not done after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublicationReport {
    pub before: Word,
    pub after: Word,
    /// Of the record that `after` names.
    pub sequence: u64,
    /// Units of the record before, and after: at most 64.
    pub units: (u64, u64),
    /// The record is void: what an earlier report said of it was not done.
    pub is_taken_back: bool,
}

/// Where report `number`, from 1, lies in its ring.
pub(crate) fn report_offset(number: u64) -> u64 {
    REPORTS_OFFSET + (number - 1) % REPORTS * REPORT_BYTES as u64
}

/// The highest sequence that a report can name.
pub(crate) const SEQUENCE_MAX: u64 = (1 << SEQUENCE_BITS) - 1;

impl PublicationReport {
    pub fn encode(&self, number: u64) -> [u8; REPORT_BYTES] {
        let (before, after) = self.units;
        assert!(self.sequence <= SEQUENCE_MAX && before <= UNITS_MASK && after <= UNITS_MASK);
        let facts = self.sequence
            | before << SEQUENCE_BITS
            | after << UNITS_AFTER_SHIFT
            | if self.is_taken_back { TAKEN_BACK } else { 0 };
        let mut bytes = [0; REPORT_BYTES];
        let words = [
            self.before.0,
            self.after.0,
            facts,
            check([self.before.0, self.after.0, facts], number),
        ];
        bytes
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(words)
            .for_each(|(into, word)| *into = word.to_le_bytes());
        bytes
    }

    /// Report `number`, if that is what stands there.
    pub fn parse(words: [u64; 4], number: u64) -> Option<Self> {
        let [before, after, facts, found] = words;
        if found != check([before, after, facts], number) {
            return None;
        }
        Some(Self {
            before: Word(before),
            after: Word(after),
            sequence: facts & SEQUENCE_MAX,
            units: (
                facts >> SEQUENCE_BITS & UNITS_MASK,
                facts >> UNITS_AFTER_SHIFT & UNITS_MASK,
            ),
            is_taken_back: facts & TAKEN_BACK != 0,
        })
    }
}

fn check([before, after, facts]: [u64; 3], number: u64) -> u64 {
    let mixed =
        (before ^ after.rotate_left(23) ^ facts.rotate_left(46)).wrapping_mul(CHECK_FACTORS[0]);
    (mixed ^ mixed >> 32).wrapping_add(number.wrapping_mul(CHECK_FACTORS[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: [u8; REPORT_BYTES]) -> [u64; 4] {
        let (words, _) = bytes.as_chunks::<8>();
        std::array::from_fn(|index| u64::from_le_bytes(words[index]))
    }

    /// Needs the number in the check: the report of the round before stands there until it is overwritten.
    #[test]
    fn a_report_is_read_under_its_number_alone_and_only_when_it_is_whole() {
        let report = PublicationReport {
            before: Word(u64::MAX >> 4),
            after: Word(77),
            sequence: SEQUENCE_MAX,
            units: (64, 1),
            is_taken_back: true,
        };
        let whole = words(report.encode(9));
        assert_eq!(PublicationReport::parse(whole, 9), Some(report));
        assert_eq!(PublicationReport::parse(whole, 9 + REPORTS), None);
        assert_eq!(PublicationReport::parse([0; 4], 1), None);
        let earlier = words(
            PublicationReport {
                sequence: 3,
                after: Word(1),
                before: Word(2),
                units: (2, 3),
                is_taken_back: false,
            }
            .encode(9 - 1),
        );
        for subset in 1..15 {
            let torn = std::array::from_fn(|word| {
                if subset >> word & 1 == 0 {
                    whole[word]
                } else {
                    earlier[word]
                }
            });
            assert_eq!(
                PublicationReport::parse(torn, 9),
                None,
                "words {subset:04b}"
            );
        }
    }

    #[test]
    fn reports_lie_in_the_ring_and_no_two_of_a_round_in_one_place() {
        assert_eq!(report_offset(1), 64);
        assert_eq!(report_offset(REPORTS) + REPORT_BYTES as u64, RING_SIZE);
        assert_eq!(report_offset(REPORTS + 1), report_offset(1));
    }
}
