//! An overwrite without a future: straight-line code for the ordinary case. The provider must read and change the
//! server's memory in the call.
//!
//! ```text
//!   bucket -> a word with the fingerprint -> start of the record: the key's, not claimed
//!      -> counter -> intent, record with stamp, word      done
//!                                               '-> lost: void
//!   anything else: nothing was done, and `Publisher::overwrite` takes over
//! ```
//!
//! Invariants: after the same READs, this path makes the same changes as `Publisher::overwrite`, in the same order. A
//! put is done here only after all earlier puts of this client. This path does not check whether the rights were used
//! lately: with rights that the server has taken away for want of use, every change fails and nothing is done.

use std::rc::Rc;

use smallvec::SmallVec;
use stonecast_base::LINE_SIZE;
use stonecast_fabric::{ChangeNow, ReadInto};
use stonecast_log::record_size;

use super::{
    Attempt, Execution, Overwritable, PUBLISHED_SIZE_MAX, Publisher, PublishingRight, Rights,
    TOGETHER, Target, plain_put,
};
use crate::error::StoreError;
use crate::index::{LookUp, LookUpStep};
use crate::wire::intent::SEQUENCE_MAX;
use crate::wire::limits::check_key;
use crate::wire::{Bucket, KeyHash};

/// One put in this many notes the time of use. Reading the clock is slow, and a time that lags behind only makes the
/// client request the rights again.
const USED_EVERY: u64 = 64;
/// Bytes fetched ahead from the start of an old record: the header and most keys.
const FETCHED_SIZE: usize = 2 * LINE_SIZE;

impl Publisher {
    /// Publishes a plain put that overwrites a key, if that can be done in the call, and returns the version. `None`:
    /// nothing was done. Called only if no earlier write of this client waits.
    #[inline]
    pub fn overwrite_in_call(self: &Rc<Self>, key: &[u8], value: &[u8]) -> Option<u64> {
        if self.memory.execution != Execution::InCall {
            return None;
        }
        let publishing = &mut *self.publishing.borrow_mut();
        let PublishingRight::Granted(rights) = publishing else {
            return None;
        };
        self.overwrite_with(rights, key, value)
    }

    #[inline]
    fn overwrite_with(
        self: &Rc<Self>,
        rights: &mut Rights,
        key: &[u8],
        value: &[u8],
    ) -> Option<u64> {
        let connection = &*self.connection;
        if connection.has_puts() || connection.is_closed() || check_key(key).is_err() {
            return None;
        }
        let size = record_size(key.len(), value.len());
        let index = self.memory.first_index();
        if size > PUBLISHED_SIZE_MAX || rights.grant.table != index.table || !rights.has_room(size)
        {
            return None;
        }
        if !rights.has_room_for_intents() {
            let mut taken = [0; 8];
            self.memory.read_in_call(&mut [ReadInto {
                remote: rights.ring(0),
                into: &mut taken,
            }])?;
            rights.note_taken(u64::from_le_bytes(taken));
            if !rights.has_room_for_intents() {
                return None;
            }
        }
        let hash = self.connection.welcome.keys().route(key).hash;
        let target = self.find_target_in_call(hash, key)?;
        let mut sequence = 0;
        self.change_in_call(&mut [ChangeNow::FetchAndAdd {
            remote: rights.counter(),
            add: 1,
            found: &mut sequence,
        }])?;
        if sequence == 0 || sequence > SEQUENCE_MAX {
            return None;
        }
        let draft = plain_put(key, value);
        let attempt = rights.stamp_next(&self.memory, &draft, hash, &target, sequence);
        let intent = attempt.intent.encode(attempt.intent_number);
        let mut found = 0;
        self.change_in_call(&mut attempt.changes(&rights.record, &intent, &mut found))?;
        rights.note_stamped(&attempt);
        if attempt.intent_number.is_multiple_of(USED_EVERY) {
            rights.note_used(connection.runtime.now());
        }
        if attempt.has_won(found) {
            connection.note_version(sequence);
            return Some(sequence);
        }
        self.take_back_in_call(rights, attempt);
        None
    }

    /// The word of `key`, if it is the first word of the home bucket that may belong to the key.
    #[inline]
    fn find_target_in_call(&self, hash: KeyHash, key: &[u8]) -> Option<Target> {
        let index = self.memory.first_index();
        let wanted = Overwritable::new(&self.connection.format, key);
        let mut look_up = LookUp::new(wanted, hash, index.bits);
        let mut line = [0; LINE_SIZE];
        self.memory.read_in_call(&mut [ReadInto {
            remote: index.address(look_up.home()),
            into: &mut line,
        }])?;
        let LookUpStep::Record { position, size } = look_up.bucket(&line) else {
            return None;
        };
        let start = &mut self.start.borrow_mut()[..size];
        self.memory.read_in_call(&mut [ReadInto {
            remote: self.memory.log_address(position),
            into: start,
        }])?;
        let size = look_up.found(start)??;
        Some(Target::new(index.table, &look_up, size))
    }

    /// Makes the record of a lost publication void. If that cannot be done in the call, a task does it before the next
    /// put.
    #[cold]
    fn take_back_in_call(self: &Rc<Self>, rights: &mut Rights, attempt: Attempt) {
        let place = rights.next_intent();
        let (void, intent) = attempt.taken_back(place.0);
        if self
            .change_in_call(&mut attempt.taking_back(&void, place.1, &intent))
            .is_none()
        {
            let publisher = self.clone();
            let taking_back = async move {
                match publisher.memory.lend() {
                    Ok(lent) => publisher.take_back(&attempt, place, &lent).await,
                    Err(_) => {
                        publisher.connection.end();
                        Err(StoreError::Disconnected { unknown: true })
                    }
                }
            };
            let taken_back = self.connection.conclude_in_task(taking_back);
            *self.taking_back.borrow_mut() = Some(Box::pin(taken_back));
        }
    }

    #[inline]
    fn change_in_call(&self, changes: &mut [ChangeNow<'_>]) -> Option<()> {
        let connection = &*self.connection;
        connection.meter.note_round_trip();
        connection
            .port
            .device()
            .change_now(connection.qp, changes)
            .then_some(())
    }

    /// Fetches the lines that overwrites of at most [`TOGETHER`] keys will read, if overwrites are published in the
    /// call. The bytes read are a hint and decide nothing.
    pub fn fetch<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        let has_rights = matches!(*self.publishing.borrow(), PublishingRight::Granted(_));
        if !has_rights || self.memory.execution != Execution::InCall {
            return;
        }
        let memory = &*self.memory;
        let index = memory.first_index();
        let hashes: SmallVec<[KeyHash; TOGETHER]> = keys
            .map(|key| self.connection.welcome.keys().route(key).hash)
            .collect();
        let mut buckets = [[0; LINE_SIZE]; TOGETHER];
        let mut reads: SmallVec<[ReadInto<'_>; TOGETHER]> = hashes
            .iter()
            .zip(&mut buckets)
            .map(|(hash, into)| ReadInto {
                remote: index.address(hash.bucket(index.bits)),
                into,
            })
            .collect();
        if memory.read_in_call(&mut reads).is_none() {
            return;
        }
        drop(reads);
        let mut starts = [[0; FETCHED_SIZE]; TOGETHER];
        let mut reads: SmallVec<[ReadInto<'_>; TOGETHER]> = SmallVec::new();
        for ((hash, bucket), into) in hashes.iter().zip(&buckets).zip(&mut starts) {
            let bucket = Bucket::parse(bucket);
            let Some((_, word)) = bucket.next_of(&mut bucket.candidates(*hash)) else {
                continue;
            };
            let size = memory.first_read_size(word).min(FETCHED_SIZE);
            if size > 0 {
                reads.push(ReadInto {
                    remote: memory.log_address(word.position()),
                    into: &mut into[..size],
                });
            }
        }
        if !reads.is_empty() {
            memory.read_in_call(&mut reads);
        }
    }
}
