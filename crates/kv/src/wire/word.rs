//! The 8-byte index word.
//!
//! ```text
//!   63    60 59            44 43        34 33                                   0
//!   +-------+----------------+------------+-------------------------------------+
//!   | class | fingerprint    | generation | location in 64-byte units           |
//!   +-------+----------------+------------+-------------------------------------+
//! ```
//!
//! 34 bits of 64-byte units reach 1 TiB. The generation, modulo 1024, tells a reader that the segment was reused after
//! the word was read. The class gives the number of lines that hold the whole record, so that one READ fetches the
//! record. The word 0 is empty: unit 0 belongs to the header of segment 0, so no record lies there.

use stonecast_base::LINE_SIZE;

use super::keys::{FINGERPRINT_BITS, KeyHash};

const LOCATION_BITS: u32 = 34;
const GENERATION_BITS: u32 = 10;
pub(super) const FINGERPRINT_SHIFT: u32 = LOCATION_BITS + GENERATION_BITS;

/// Largest log that words can address, in bytes.
pub(crate) const LOG_SIZE_MAX: u64 = (1 << LOCATION_BITS) * LINE_SIZE as u64;

/// Lines of the first fetch of a reader, by size class. The last class also covers every larger record, whose reader
/// learns the size from the first lines and fetches the rest.
const CLASS_LINES: [u16; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 64];

/// Largest first fetch, in bytes.
pub(crate) const FIRST_READ_SIZE_MAX: usize =
    CLASS_LINES[CLASS_LINES.len() - 1] as usize * LINE_SIZE;

const CLASS_SHIFT: u32 = FINGERPRINT_SHIFT + FINGERPRINT_BITS;
/// The last class.
const CLASS_MAX: u64 = CLASS_LINES.len() as u64 - 1;

/// The class of a record that takes `record_size` bytes of the log.
#[inline]
fn class_of(record_size: u64) -> u64 {
    let lines = record_size / LINE_SIZE as u64;
    CLASS_LINES[..15]
        .iter()
        .position(|&limit| lines <= u64::from(limit))
        .unwrap_or(15) as u64
}

/// An index word. `Word::EMPTY` is a free place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word(pub u64);

impl Word {
    /// A free place.
    pub const EMPTY: Self = Self(0);

    /// The word for a record of `record_size` bytes at byte `position` of the log.
    pub fn new(position: u64, generation: u32, hash: KeyHash, record_size: u64) -> Self {
        assert!(
            position.is_multiple_of(LINE_SIZE as u64) && position < LOG_SIZE_MAX && position != 0
        );
        let class = class_of(record_size);
        Self(
            (position / LINE_SIZE as u64)
                | (u64::from(generation % (1 << GENERATION_BITS)) << LOCATION_BITS)
                | (u64::from(hash.fingerprint()) << FINGERPRINT_SHIFT)
                | (class << CLASS_SHIFT),
        )
    }

    /// The word with the class of a record of `record_size` bytes in place of the class of `self`.
    #[inline]
    pub fn natural(self, record_size: u64) -> Self {
        Self(self.0 & !(CLASS_MAX << CLASS_SHIFT) | class_of(record_size) << CLASS_SHIFT)
    }

    /// The word with the next size class: equal for readers, and left alone by clients that publish. `self` must be
    /// natural. A long word has no next class and stays unchanged.
    #[inline]
    pub fn claimed(self) -> Self {
        if self.is_long() {
            self
        } else {
            Self(self.0 + (1 << CLASS_SHIFT))
        }
    }

    /// Whether both words name the same record, claimed or not.
    #[inline]
    pub fn names(self, other: Self) -> bool {
        (self.0 ^ other.0) & !(CLASS_MAX << CLASS_SHIFT) == 0
    }

    /// Byte position in the log.
    pub fn position(self) -> u64 {
        (self.0 & ((1 << LOCATION_BITS) - 1)) * LINE_SIZE as u64
    }

    /// Low bits of the segment's generation.
    pub fn generation_low(self) -> u16 {
        (self.0 >> LOCATION_BITS) as u16 & ((1 << GENERATION_BITS) - 1)
    }

    /// Whether the low bits match `generation`.
    pub fn is_of_generation(self, generation: u32) -> bool {
        u32::from(self.generation_low()) == generation % (1 << GENERATION_BITS)
    }

    /// Bytes to fetch at first.
    pub fn read_size(self) -> u64 {
        u64::from(CLASS_LINES[(self.0 >> 60) as usize]) * LINE_SIZE as u64
    }

    /// Whether a record of this class may be longer than the first fetch.
    pub fn is_long(self) -> bool {
        self.0 >> 60 == CLASS_LINES.len() as u64 - 1
    }

    /// A hash that the word matches and whose home is `bucket` of 2^`bits` buckets. Without the key, more is not known.
    pub fn hash_of_bucket(self, bucket: u64, bits: u32) -> KeyHash {
        let top = if bits == 0 { 0 } else { bucket << (64 - bits) };
        KeyHash(top | u64::from((self.0 >> FINGERPRINT_SHIFT) as u16))
    }

    /// Whether the word can belong to a key with this hash.
    #[inline]
    pub fn matches(self, hash: KeyHash) -> bool {
        // No branch: a processor cannot predict which word of a bucket matches.
        ((self.0 >> FINGERPRINT_SHIFT) as u16 == hash.fingerprint()) & (self.0 != 0)
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}/{}/{:#x}",
            self.position(),
            self.generation_low(),
            self.0 >> 44
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_returns_its_fields_at_both_ends_of_every_range() {
        for position in [64, LOG_SIZE_MAX - 64] {
            for generation in [0, 1, 1023, 1024, u32::MAX] {
                for hash in [KeyHash(0), KeyHash(u64::MAX)] {
                    let word = Word::new(position, generation, hash, 64);
                    assert_eq!(word.position(), position);
                    assert_eq!(word.generation_low(), (generation % 1024) as u16);
                    assert!(word.matches(hash));
                    assert!(!word.matches(KeyHash(hash.0 ^ 1)));
                }
            }
        }
    }

    #[test]
    fn the_first_read_covers_every_record_up_to_the_largest_class() {
        for lines in 1..=64u64 {
            let word = Word::new(64, 0, KeyHash(5), lines * 64);
            assert!(word.read_size() >= lines * 64);
            assert!(
                word.read_size() <= (lines + lines.div_ceil(2)) * 64,
                "at most half as much again: {lines}"
            );
        }
        assert_eq!(Word::new(64, 0, KeyHash(5), 65 * 64).read_size(), 64 * 64);
        assert!(
            Word::new(64, 0, KeyHash(5), 65 * 64).is_long()
                && !Word::new(64, 0, KeyHash(5), 64 * 64).is_long()
        );
    }

    /// Fails if the natural class is not calculated again: a claimed word does not record its earlier class.
    #[test]
    fn a_claimed_word_differs_from_the_natural_word_and_fetches_no_less() {
        for lines in 1..=70u64 {
            let word = Word::new(640, 5, KeyHash(9), lines * 64);
            let claimed = word.claimed();
            assert!(
                claimed.names(word)
                    && claimed.matches(KeyHash(9))
                    && claimed.read_size() >= word.read_size()
            );
            assert_eq!(
                (claimed.natural(lines * 64), claimed == word),
                (word, word.is_long())
            );
            assert!(!claimed.names(Word::new(704, 5, KeyHash(9), lines * 64)));
        }
    }

    #[test]
    fn an_empty_word_matches_no_key() {
        assert!(!Word::EMPTY.matches(KeyHash(0)));
    }
}
