//! The intents that a publishing client announces to the server, and the ring that holds them.
//!
//! ```text
//!   ring   | taken | ...  64 bytes | intent | intent | ...     INTENTS times 32 bytes
//!            server                  client
//!
//!   intent | word before | word after | sequence, sizes, kind | check |
//! ```
//!
//! A client announces a publication in the batch that makes it, ahead of the change of the word. An intent counts when
//! its check fits its number; numbers begin at 1. In whatever order its words arrive, an intent that counts is whole,
//! and an intent of an earlier round does not count. `taken` is the number of intents that the server has taken; a
//! client announces at most [`INTENTS`] beyond that number.

use crate::wire::Word;

/// Intents that a ring holds.
pub(crate) const INTENTS: u64 = 16384;
/// Bytes of an intent.
pub(crate) const INTENT_SIZE: usize = 32;
/// Offset of the first intent.
const INTENTS_OFFSET: u64 = 64;
/// Bytes of a ring.
pub(crate) const RING_SIZE: u64 = INTENTS_OFFSET + INTENTS * INTENT_SIZE as u64;

const SEQUENCE_BITS: u32 = 48;
const UNITS_BITS: u32 = 7;
const UNITS_MASK: u64 = (1 << UNITS_BITS) - 1;
const UNITS_AFTER_SHIFT: u32 = SEQUENCE_BITS + UNITS_BITS;
const TAKEN_BACK: u64 = 1 << 62;
/// Odd numbers that spread words and number over the check.
const CHECK_FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// A word that a client is about to replace, or has not replaced after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    pub before: Word,
    pub after: Word,
    /// Sequence of the record that `after` names.
    pub sequence: u64,
    /// Units of the records before and after: at most 64 each.
    pub units: (u64, u64),
    /// The record is void: the publication that an earlier intent announced did not happen.
    pub is_taken_back: bool,
}

/// The offset of intent `number` in its ring. Numbers begin at 1.
pub(crate) fn intent_offset(number: u64) -> u64 {
    INTENTS_OFFSET + (number - 1) % INTENTS * INTENT_SIZE as u64
}

/// The highest sequence that an intent can name.
pub(crate) const SEQUENCE_MAX: u64 = (1 << SEQUENCE_BITS) - 1;

impl Intent {
    pub fn encode(&self, number: u64) -> [u8; INTENT_SIZE] {
        let (before, after) = self.units;
        assert!(self.sequence <= SEQUENCE_MAX && before <= UNITS_MASK && after <= UNITS_MASK);
        let facts = self.sequence
            | before << SEQUENCE_BITS
            | after << UNITS_AFTER_SHIFT
            | if self.is_taken_back { TAKEN_BACK } else { 0 };
        let mut bytes = [0; INTENT_SIZE];
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

    /// Intent `number`, if `words` hold that intent.
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

    fn words(bytes: [u8; INTENT_SIZE]) -> [u64; 4] {
        let (words, _) = bytes.as_chunks::<8>();
        std::array::from_fn(|index| u64::from_le_bytes(words[index]))
    }

    /// Fails if the check leaves out the number: the intent of the round before stays in its place until it is
    /// overwritten.
    #[test]
    fn an_intent_is_read_only_under_its_number_and_only_when_whole() {
        let intent = Intent {
            before: Word(u64::MAX >> 4),
            after: Word(77),
            sequence: SEQUENCE_MAX,
            units: (64, 1),
            is_taken_back: true,
        };
        let whole = words(intent.encode(9));
        assert_eq!(Intent::parse(whole, 9), Some(intent));
        assert_eq!(Intent::parse(whole, 9 + INTENTS), None);
        assert_eq!(Intent::parse([0; 4], 1), None);
        let earlier = words(
            Intent {
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
            assert_eq!(Intent::parse(torn, 9), None, "words {subset:04b}");
        }
    }

    #[test]
    fn intents_lie_in_the_ring_and_no_two_intents_of_a_round_share_a_place() {
        assert_eq!(intent_offset(1), 64);
        assert_eq!(intent_offset(INTENTS) + INTENT_SIZE as u64, RING_SIZE);
        assert_eq!(intent_offset(INTENTS + 1), intent_offset(1));
    }
}
