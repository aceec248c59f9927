//! A GET where the provider executes READs in the call: the ordinary case as straight as it can be.
//!
//! ```text
//!   bucket -> a word with the fingerprint -> record, it checks     found
//!   bucket -> no such word, and no key lives further on            absent
//!   anything else     nothing is said: `read.rs` looks the key up anew and knows what to do
//! ```
//!
//! Where a READ is a load the memory's latency is nearly all of a GET, and the processor hides part of it if it finds the
//! next GET's first load among the few hundred instructions that it looks ahead, and if it need not guess a jump. So
//! nothing here waits, allocates or makes a future, which word of the bucket it is is computed without a jump, and places
//! are not remembered: a table of them takes as long to look into as the bucket, and drives out of the caches what it saves.
//!
//! Invariants: what is concluded here is what `read.rs` concludes from the same bytes, and nothing is concluded from bytes
//! of which it would read more. Why that is right: `docs/design/0004`.

use stonecast_base::LINE_SIZE;
use stonecast_fabric::{ReadInto, Status};

use super::Inner;
use super::read::{candidate_in, control};
use super::write::check_key;
use crate::index::MOVED;
use crate::word::{KeyHash, Word};

/// Longest first READ of a record; a record of the last class may be longer and is left to `read.rs`.
const SIZE_MAX: usize = 64 * LINE_SIZE;

/// Memory that a record is read to.
pub(super) struct Bytes(Box<[u8; SIZE_MAX]>);

impl Default for Bytes {
    fn default() -> Self {
        Self(Box::new([0; SIZE_MAX]))
    }
}

impl Inner {
    /// The version of `key`, whose value is left in `value`, or that it is absent; `None`: not to be told here.
    #[inline]
    pub(super) fn find_at_once(&self, key: &[u8], value: &mut Vec<u8>) -> Option<Option<u64>> {
        if !self.reads_at_once || check_key(key).is_err() || self.closed.get() || self.generations.have_come_round() {
            return None;
        }
        let hash = KeyHash::of(self.format.tag_key, key);
        let bits = self.access.get().index_bits;
        let home = hash.bucket(bits);
        let mut bucket = [0; LINE_SIZE];
        let bytes = &mut *self.at_once.borrow_mut().0;
        self.read_at_once(ReadInto { remote: self.index_address(home), into: &mut bucket })?;
        if control(&bucket) & MOVED != 0 {
            return None;
        }
        let Some(word) = candidate_in(&bucket, hash) else {
            if control(&bucket) != 0 {
                return None;
            }
            self.locations.count(false);
            return Some(None);
        };
        let record = &mut bytes[..self.size_at_once(word)?];
        self.read_at_once(ReadInto { remote: self.log_address(word.position()), into: record })?;
        let version = self.value_at_once(word, key, record, value)?;
        self.locations.count(false);
        Some(Some(version))
    }

    /// Bytes of the record behind `word` if one READ brings all of it.
    #[inline]
    fn size_at_once(&self, word: Word) -> Option<usize> {
        let size = self.first_read_size(word);
        (!word.is_long() && size > 0 && size <= SIZE_MAX).then_some(size)
    }

    #[inline]
    fn read_at_once(&self, read: ReadInto<'_>) -> Option<()> {
        let size = read.into.len();
        let status = self.port.device().read_now(self.qp, &mut [read])?;
        self.meter.note_reads(size);
        (status == Status::Success).then_some(())
    }

    /// The version of the record in `bytes`, read from behind `word`, if it is the key's and published.
    #[inline]
    fn value_at_once(&self, word: Word, key: &[u8], bytes: &[u8], value: &mut Vec<u8>) -> Option<u64> {
        let (place, version) = self.value_in(word, bytes, key)?;
        // The record that tells of generations that come round was read without a look at the clock.
        if self.generations.have_come_round() {
            return None;
        }
        value.clear();
        value.extend_from_slice(&bytes[place]);
        Some(version)
    }
}
