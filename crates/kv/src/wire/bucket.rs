//! A bucket of the index: one cache line, in the form that the server stores and clients read.
//!
//! ```text
//!   | word | word | word | word | word | word | word | control |     64 bytes
//!   control    bit 63: moved; the rest: words whose home is at or before this bucket and that lie after it
//! ```

use stonecast_base::LINE_SIZE;
use stonecast_media::equal_upper_halves;

use super::KeyHash;
use super::keys::FINGERPRINT_BITS;
use super::word::{FINGERPRINT_SHIFT, Word};

/// Words of a bucket that hold keys.
pub(crate) const BUCKET_WORDS: u64 = 7;
/// Byte offset of the control word in its bucket.
pub(crate) const CONTROL_OFFSET: u64 = BUCKET_WORDS * 8;
/// Set in the control word of a bucket that another table has taken over.
pub(crate) const MOVED: u64 = 1 << 63;

/// log2 of the most buckets: a word for each unit of the largest log and some to spare.
pub(crate) const INDEX_BITS_MAX: u32 = 33;

/// Bytes of a table of 2^`bits` buckets.
pub(crate) fn table_size(bits: u32) -> u64 {
    (1 << bits) * LINE_SIZE as u64
}

/// A view of the bytes of a bucket that was read. A copy of the words would delay the load of the record behind the
/// load of the bucket.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a>(&'a [u8; LINE_SIZE]);

/// The words of a bucket that may belong to a key: one bit for each word, in order.
#[derive(Clone, Copy, Default)]
pub(crate) struct Candidates(u32);

impl<'a> Bucket<'a> {
    #[inline(always)]
    pub fn parse(bytes: &'a [u8; LINE_SIZE]) -> Self {
        Self(bytes)
    }

    #[inline(always)]
    fn number(self, index: usize) -> u64 {
        let (numbers, _) = self.0.as_chunks::<8>();
        u64::from_le_bytes(numbers[index])
    }

    #[inline(always)]
    fn control(self) -> u64 {
        self.number(BUCKET_WORDS as usize)
    }

    /// Whether another table has taken over the content of this bucket.
    #[inline(always)]
    pub fn is_moved(self) -> bool {
        self.control() & MOVED != 0
    }

    /// Whether a word whose home is this bucket or an earlier one lies in a later bucket.
    #[inline(always)]
    pub fn leads_on(self) -> bool {
        self.control() & !MOVED != 0
    }

    /// All words, free places included.
    #[inline(always)]
    pub fn words(self) -> [Word; BUCKET_WORDS as usize] {
        // `from_fn` and `map` would be a call for each word without link-time optimization.
        let word = |slot| Word(self.number(slot));
        [
            word(0),
            word(1),
            word(2),
            word(3),
            word(4),
            word(5),
            word(6),
        ]
    }

    /// Whether the bucket contains `word`.
    #[inline(always)]
    pub fn has(self, word: Word) -> bool {
        // No branch for each word: a processor cannot predict which word is equal.
        self.words()
            .iter()
            .fold(false, |is_there, other| is_there | (*other == word))
    }

    /// The words that may belong to a key with `hash`. All are compared at once, without a branch.
    #[inline(always)]
    pub fn candidates(self, hash: KeyHash) -> Candidates {
        const MASK: u32 = (((1u64 << FINGERPRINT_BITS) - 1) << FINGERPRINT_SHIFT >> 32) as u32;
        // The whole fingerprint lies in the upper half of a word.
        const { assert!(FINGERPRINT_SHIFT >= 32 && FINGERPRINT_SHIFT + FINGERPRINT_BITS <= 64) };
        let [a, b, c, d, e, f, g] = self.words();
        let equal = equal_upper_halves(
            // The last place only fills the line.
            [a.0, b.0, c.0, d.0, e.0, f.0, g.0, 0],
            MASK,
            u32::from(hash.fingerprint()) << (FINGERPRINT_SHIFT - 32),
        );
        Candidates(equal & ((1 << (2 * BUCKET_WORDS)) - 1))
    }

    /// Takes the next of `candidates`, which [`Bucket::candidates`] returned for this bucket. Returns its slot and the
    /// word.
    #[inline(always)]
    pub fn next_of(self, candidates: &mut Candidates) -> Option<(usize, Word)> {
        while candidates.0 != 0 {
            let slot = candidates.0.trailing_zeros() as usize / 2;
            candidates.0 &= candidates.0 - 1;
            let word = Word(self.number(slot));
            // A free place has the fingerprint of some hashes.
            if word != Word::EMPTY {
                return Some((slot, word));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::LOG_SIZE_MAX;

    fn line(words: [Word; BUCKET_WORDS as usize], control: u64) -> [u8; LINE_SIZE] {
        let mut bytes = [0; LINE_SIZE];
        let numbers = words.map(|word| word.0).into_iter().chain([control]);
        for (into, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *into = number.to_le_bytes();
        }
        bytes
    }

    fn slots(bucket: Bucket<'_>, hash: KeyHash) -> Vec<usize> {
        let mut candidates = bucket.candidates(hash);
        std::iter::from_fn(|| bucket.next_of(&mut candidates))
            .map(|(slot, _)| slot)
            .collect()
    }

    #[test]
    fn every_word_of_a_fingerprint_is_found_in_every_slot_and_free_places_are_not() {
        let other =
            |index: u64| Word::new((index + 1) * 64, 1023, KeyHash(0x8000 + index), 64 * 64);
        for fingerprint in [0, 1, 0x7fff, 0xffff, 0x00ff, 0xff00] {
            let hash = KeyHash(0xdead_beef_0000_0000 | fingerprint);
            for matching in 0..1u32 << BUCKET_WORDS {
                let is_match = |index: &usize| matching >> index & 1 != 0;
                for rest in [other, |_| Word::EMPTY] {
                    let word = |index| {
                        if is_match(&index) {
                            Word::new(LOG_SIZE_MAX - 64, 1023, hash, 64)
                        } else {
                            rest(index as u64)
                        }
                    };
                    let line = line(std::array::from_fn(word), 0);
                    let bucket = Bucket::parse(&line);
                    let expected: Vec<usize> =
                        (0..BUCKET_WORDS as usize).filter(is_match).collect();
                    assert_eq!(slots(bucket, hash), expected, "{matching:#b}");
                    assert_eq!(
                        bucket.has(Word::new(LOG_SIZE_MAX - 64, 1023, hash, 64)),
                        matching != 0
                    );
                }
            }
        }
    }

    #[test]
    fn the_control_word_says_whether_the_bucket_moved_and_whether_its_keys_lie_in_later_buckets() {
        for (control, is_moved, leads_on) in [
            (0, false, false),
            (3, false, true),
            (MOVED, true, false),
            (MOVED | 1, true, true),
        ] {
            let line = line([Word::EMPTY; BUCKET_WORDS as usize], control);
            let bucket = Bucket::parse(&line);
            assert_eq!((bucket.is_moved(), bucket.leads_on()), (is_moved, leads_on));
        }
    }
}
