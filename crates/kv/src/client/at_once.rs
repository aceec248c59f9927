//! A GET that nobody else has to run for: the ordinary case as straight as it can be, without a future.
//!
//! ```text
//!   place remembered    record, bucket -> the bucket has the word, the record checks      found
//!   else, or not so     bucket -> a word with the fingerprint -> record, it checks        found
//!                       bucket -> no such word, and no key lives further on               absent
//!   anything else       nothing is said: `read.rs` looks the key up anew and knows what to do
//! ```
//!
//! There are two kinds of providers for which it pays.
//!
//! *A READ is executed in the call* (shared memory). Then the memory's latency is nearly all of a GET, and the processor hides
//! part of it if it finds the next GET's first load among the few hundred instructions that it looks ahead, and if it need
//! not guess a jump. So which word of the bucket it is is computed without a jump, and places are not remembered: a table of
//! them takes as long to look into as the bucket, and drives out of the caches what it saves.
//!
//! *A READ comes soon* (cards). Then a client that waits for nothing else waits for it in the call (`in_call.rs`), and posts
//! the next one as soon as it has seen what the first one brought.
//!
//! Invariants: what is concluded here is what `read.rs` concludes from the same bytes, and nothing is concluded from bytes
//! of which it would read more. Why that is right: `docs/design/0004`, and `0017` for remembered places.

use stonecast_base::LINE_SIZE;
use stonecast_fabric::{ReadInto, Status};

use super::Inner;
use super::write::check_key;
use crate::index::{LookUp, LookUpStep};
use crate::wire::KeyHash;

/// Longest first READ of a record; a record of the last class may be longer and is left to `read.rs`.
pub(super) const SIZE_MAX: usize = 64 * LINE_SIZE;

/// Memory that READs are executed to.
pub(super) struct Bytes {
    /// A record, or its start.
    pub record: Box<[u8; SIZE_MAX]>,
    bucket: [u8; LINE_SIZE],
}

impl Default for Bytes {
    fn default() -> Self {
        Self {
            record: Box::new([0; SIZE_MAX]),
            bucket: [0; LINE_SIZE],
        }
    }
}

/// Which READs of a client can be waited for in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtOnce {
    /// None.
    Never,
    /// All: the provider executes them there.
    Now,
    /// Those of a client that waits for nothing else: they come soon.
    Soon,
}

impl Inner {
    /// The version of `key`, whose value is left in `value`, or that it is absent; `None`: not to be told here.
    #[inline(always)]
    pub(super) fn find_at_once(&self, key: &[u8], value: &mut Vec<u8>) -> Option<Option<u64>> {
        match self.at_once {
            AtOnce::Never => None,
            AtOnce::Now => self.find_in_call::<false>(key, value),
            AtOnce::Soon if self.may_read_in_call() => self.find_in_call::<true>(key, value),
            AtOnce::Soon => None,
        }
    }

    /// The same where READs come soon, or are executed in the call: nothing of the one is in the way of the other.
    #[inline(never)]
    fn find_in_call<const SOON: bool>(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Option<Option<u64>> {
        if check_key(key).is_err() || self.closed.get() || self.generations.have_come_round() {
            return None;
        }
        let hash = KeyHash::of(self.format.tag_key, key);
        let index_bits = self.access.get().index_bits;
        let mut look_up = LookUp::new(self.whole_record(key), hash, index_bits);
        let Bytes { record, bucket } = &mut *self.read_at_once_to.borrow_mut();
        let home = self.index_address(look_up.home());
        let remembered = if SOON {
            self.locations.find(hash)
        } else {
            None
        };
        let mut step = if let Some(location) = remembered {
            // Where the key lies farther on, two buckets would have to be read.
            let recall = look_up.recall(location).filter(|it| it.buckets == 1)?;
            let record = record.get_mut(..recall.size)?;
            self.read_at_once::<SOON>(&mut [
                ReadInto {
                    remote: self.log_address(recall.position),
                    into: &mut *record,
                },
                ReadInto {
                    remote: home,
                    into: &mut *bucket,
                },
            ])?;
            look_up.recalled(std::slice::from_ref(bucket), record)
        } else {
            self.read_at_once::<SOON>(&mut [ReadInto {
                remote: home,
                into: &mut *bucket,
            }])?;
            look_up.bucket(bucket)
        };
        if let LookUpStep::Record { position, size } = step {
            let record = record.get_mut(..size)?;
            self.read_at_once::<SOON>(&mut [ReadInto {
                remote: self.log_address(position),
                into: &mut *record,
            }])?;
            step = look_up.record(record);
        }
        match step {
            LookUpStep::Found(found) => {
                // The record that tells of generations that come round was read without a look at the clock.
                if self.generations.have_come_round() {
                    return None;
                }
                leave_value(&record[found.value], value);
                self.locations.count(look_up.is_recalled());
                if SOON && !look_up.is_recalled() {
                    self.locations.learn(hash, look_up.location());
                }
                Some(Some(found.version))
            }
            LookUpStep::Absent => {
                if remembered.is_some() {
                    self.locations.forget(hash);
                }
                self.locations.count(false);
                Some(None)
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn read_at_once<const SOON: bool>(&self, reads: &mut [ReadInto<'_>]) -> Option<()> {
        if SOON {
            self.read_in_call(reads)
        } else {
            self.read_now(reads)
        }
    }

    /// READs that the provider executes in the call, if it can now.
    #[inline(always)]
    pub(super) fn read_now(&self, reads: &mut [ReadInto<'_>]) -> Option<()> {
        let size = reads.iter().map(|read| read.into.len()).sum();
        let status = self.port.device().read_now(self.qp, reads)?;
        self.meter.note_reads(size);
        (status == Status::Success).then_some(())
    }
}

/// Leaves the value `found` in `value`.
#[inline(always)]
fn leave_value(found: &[u8], value: &mut Vec<u8>) {
    // Where the one before it was as long nothing is left to do but the copy.
    if value.len() == found.len() {
        value.copy_from_slice(found);
    } else {
        value.clear();
        value.extend_from_slice(found);
    }
}
