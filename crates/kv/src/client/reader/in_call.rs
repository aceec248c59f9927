//! A GET without a future: straight-line code for the ordinary case.
//!
//! ```text
//!   place remembered    record, bucket -> the bucket has the word, the record checks      found
//!   else, or not so     bucket -> a word with the fingerprint -> record, it checks        found
//!                       bucket -> no such word, and no key lives further on               absent
//!   anything else       no answer: `Reader::find` looks the key up anew
//! ```
//!
//! This path pays off with two kinds of providers.
//!
//! *A READ is executed in the call* (shared memory). The latency of memory is nearly the whole cost of a GET. The
//! processor hides part of that latency if the next GET's first load is among the few hundred instructions that the
//! processor looks ahead, and if no branch has to be predicted. The matching word of the bucket is therefore computed
//! without a branch, and places are not remembered: a look into a table of places takes as long as a look into the
//! bucket, and the table displaces other lines from the caches.
//!
//! *A READ completes soon* (NICs). A client that waits for nothing else waits for the READ in the call
//! (`memory/soon.rs`), and posts the next READ as soon as the bytes of the first one have arrived.
//!
//! Invariants: both ways drive the same look-up as [`Reader::find`], and leave every GET that takes more than a bucket
//! and a record to [`Reader::find`]. `docs/design/0004`, and `0017` for remembered places, explain why the result is
//! right.

use stonecast_base::LINE_SIZE;
use stonecast_fabric::ReadInto;
use stonecast_log::Form;

use super::{FoundKey, Reader};
use crate::client::memory::Execution;
use crate::client::meter::TimedCall;
use crate::client::time::Presence;
use crate::index::{FoundRecord, LookUp, LookUpStep};
use crate::wire::limits::check_key;
use crate::wire::{FIRST_READ_SIZE_MAX, Route, Word};

/// Memory that READs are executed to. The bucket begins at a cache line: a load of bytes just stored takes longer if
/// the load crosses lines.
#[repr(align(64))]
pub(super) struct Buffers {
    bucket: [u8; LINE_SIZE],
    /// A record, or its start.
    record: Box<[u8; FIRST_READ_SIZE_MAX]>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            bucket: [0; LINE_SIZE],
            record: Box::new([0; FIRST_READ_SIZE_MAX]),
        }
    }
}

impl Reader {
    /// A GET of `key`, to which `route` leads, that ends in the call, without a future and without a turn. `None`: the
    /// answer needs a [`Get`](super::Get).
    #[inline]
    pub fn get_in_call(
        &self,
        route: Route,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Option<Option<u64>> {
        let start = self.connection.begin_call();
        let version = self.find_by(|| route, key, value)?;
        self.connection.end_call(TimedCall::Read(1), start);
        Some(version)
    }

    /// The version of `key`, whose value is left in `value`, or `Some(None)` if the key is absent. `None`: the answer
    /// needs a future.
    #[inline(always)]
    pub fn find_in_call(&self, key: &[u8], value: &mut Vec<u8>) -> Option<Option<u64>> {
        let route = || self.connection.welcome.keys().route(key);
        self.find_by(route, key, value)
    }

    #[inline(always)]
    fn find_by(
        &self,
        route: impl FnOnce() -> Route,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Option<Option<u64>> {
        match self.memory.execution {
            Execution::Posted => None,
            Execution::InCall => self.find_without_future::<false>(route(), key, value),
            Execution::Soon if self.memory.may_read_soon() => {
                self.find_without_future::<true>(route(), key, value)
            }
            Execution::Soon => None,
        }
    }

    /// Like [`Reader::find_in_call`], with the expiry of the key.
    pub fn find_in_call_with_expiry(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Option<Option<FoundKey>> {
        self.expires_in_call.set(None);
        let version = self.find_in_call(key, value)?;
        let expires = self.expires_in_call.take();
        Some(version.map(|version| FoundKey { version, expires }))
    }

    /// Finds a key by READs that complete soon, or by READs in the call. Each variant is compiled without the code of
    /// the other.
    #[inline(never)]
    fn find_without_future<const SOON: bool>(
        &self,
        Route { shard, hash }: Route,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Option<Option<u64>> {
        if check_key(key).is_err()
            || self.connection.is_closed()
            || self.generations.have_come_round()
        {
            return None;
        }
        let index = self.memory.index(shard)?;
        let mut look_up = LookUp::new(self.whole_record(key), hash, index.bits);
        let Buffers { record, bucket } = &mut *self.buffers.borrow_mut();
        let home = index.address(look_up.home());
        let remembered = if SOON {
            self.locations.find(hash)
        } else {
            None
        };
        let step = if let Some(location) = remembered {
            // A key outside its home bucket takes two buckets. A long record takes more READs.
            let recall = look_up
                .recall(location)
                .filter(|it| it.buckets == 1 && !location.word.is_long())?;
            let record = record.get_mut(..recall.size)?;
            self.read_without_future::<SOON>(&mut [
                ReadInto {
                    remote: self.memory.log_address(recall.position),
                    into: &mut *record,
                },
                ReadInto {
                    remote: home,
                    into: &mut *bucket,
                },
            ])?;
            look_up.recalled(std::slice::from_ref(bucket), record)
        } else {
            self.read_without_future::<SOON>(&mut [ReadInto {
                remote: home,
                into: &mut *bucket,
            }])?;
            look_up.bucket(bucket)
        };
        let found = match step {
            LookUpStep::Record { position, size } if !look_up.word().is_long() => {
                let record = record.get_mut(..size)?;
                self.read_without_future::<SOON>(&mut [ReadInto {
                    remote: self.memory.log_address(position),
                    into: &mut *record,
                }])?;
                match look_up.found(record) {
                    Some(found) => found,
                    None => {
                        let found = (look_up.word(), false);
                        return self.find_expiring(key, found, record, value);
                    }
                }
            }
            LookUpStep::Found(found) if SOON && !found.is_plain() => {
                let found = (look_up.word(), look_up.is_recalled());
                return self.find_expiring(key, found, &record[..], value);
            }
            LookUpStep::Found(found) => found,
            LookUpStep::Absent => {
                if remembered.is_some() {
                    self.locations.forget(hash);
                }
                self.connection.meter.note_location(false);
                return Some(None);
            }
            _ => return None,
        };
        // The record that shows that generations have wrapped around was read without a look at the clock.
        if self.generations.have_come_round() {
            return None;
        }
        leave_value(&record[found.value], value);
        if SOON {
            self.learn(hash, &look_up);
        } else {
            self.connection.meter.note_location(false);
        }
        Some(Some(found.version))
    }

    /// A key whose record, behind `word`, may have an expiry. `None`: the answer needs a future, perhaps because the
    /// server has to be asked for its time. The look-up itself is no argument: a look-up whose address is taken does
    /// not stay in registers.
    #[cold]
    #[inline(never)]
    fn find_expiring(
        &self,
        key: &[u8],
        (word, is_recalled): (Word, bool),
        record: &[u8],
        value: &mut Vec<u8>,
    ) -> Option<Option<u64>> {
        let FoundRecord {
            version,
            value: at,
            expires,
            form,
        } = self.whole_record(key).whole(word, record)?;
        if form != Form::Whole {
            return None;
        }
        let connection = &self.connection;
        let shard = connection.welcome.keys().route(key).shard;
        let presence = connection.presence(shard, expires?);
        if presence == Presence::Unsure || self.generations.have_come_round() {
            return None;
        }
        connection.meter.note_location(is_recalled);
        if presence == Presence::Absent {
            return Some(None);
        }
        self.expires_in_call.set(expires);
        leave_value(&record[at], value);
        Some(Some(version))
    }

    #[inline(always)]
    fn read_without_future<const SOON: bool>(&self, reads: &mut [ReadInto<'_>]) -> Option<()> {
        if SOON {
            self.memory.read_soon(reads)
        } else {
            self.memory.read_in_call(reads)
        }
    }
}

/// Leaves the value `found` in `value`.
#[inline(always)]
fn leave_value(found: &[u8], value: &mut Vec<u8>) {
    // If the previous value has the same length, a plain copy suffices.
    if value.len() == found.len() {
        value.copy_from_slice(found);
    } else {
        value.clear();
        value.extend_from_slice(found);
    }
}
