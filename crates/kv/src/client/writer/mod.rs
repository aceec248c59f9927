//! Writing: a put is one WRITE_WITH_IMM of the record to its final place, a delete one SEND. The answer comes after the
//! write is durable and visible.
//!
//! If this client publishes its overwrites itself, the [`Publisher`] tries first: in the call if no write precedes this
//! one ([`Writer::put_in_call`]), else in the turn of the put. Puts that the publisher leaves alone go through the
//! server.

mod batch;
mod chunks;
mod many;
mod rules;
mod token;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_fabric::{Boxed, Operation};
use stonecast_lineage::Epoch;
use stonecast_log::{Condition, Draft, Form, SEGMENT_HEADER_UNITS, STAMP_SIZE, UNIT_SIZE};

use super::connection::{BUSY_PAUSE_NS, BUSY_RETRIES_MAX, Connection};
use super::fair_lock::{FairGuard, FairLock};
use super::leases::{Leases, Spot};
use super::locations::Locations;
use super::publisher::{Publisher, plain_put};
use crate::error::StoreError;
use crate::wire::limits::{VALUE_SIZE_MAX, WHOLE_VALUE_SIZE_MAX, check_key};
use crate::wire::{Answer, Request, Verdict, Word, immediate, immediate_of_batch};

pub use batch::{Applied, Batch};
pub(super) use batch::{apply, check_batch};
pub use many::Pair;
pub use rules::PutRules;
pub use token::Token;

/// The result of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Done, with the key's new version. For a delete, the version of the delete itself.
    Done(u64),
    /// The condition did not hold; nothing was done. The key's present version, or `None` if the key is absent.
    Conflict(Option<u64>),
}

/// The attempts at a put before the put takes its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    Nothing,
    /// [`Writer::put_in_call`], with no other write before it.
    InCall,
}

/// The meaning of a record that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cargo {
    /// The record of a put.
    Record,
    /// The value of the record is a batch, and the record itself does not belong to the log.
    Batch,
}

pub(super) struct Writer {
    connection: Rc<Connection>,
    pub leases: Rc<Leases>,
    locations: Rc<Locations>,
    /// `None`: the server publishes everything.
    publisher: Option<Rc<Publisher>>,
    /// Held by each write until it is sent.
    turns: FairLock,
    /// The record that is being sent. Its memory is used again for the next one.
    record: RefCell<Vec<u8>>,
    numbers_made: Cell<u64>,
}

impl Writer {
    pub fn new(
        leases: Rc<Leases>,
        connection: Rc<Connection>,
        locations: Rc<Locations>,
        publisher: Option<Rc<Publisher>>,
    ) -> Self {
        Self {
            connection,
            leases,
            locations,
            publisher,
            turns: FairLock::default(),
            record: RefCell::default(),
            numbers_made: Cell::new(0),
        }
    }

    /// Publishes a put in the call, if possible, and returns the version. `None`: nothing was done.
    #[inline]
    pub fn put_in_call(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let publisher = self.publisher.as_ref()?;
        if self.turns.is_locked() {
            return None;
        }
        publisher.overwrite_in_call(key, value)
    }

    /// Does a put that [`Writer::put_in_call`] has just declined, and returns the version.
    pub fn put<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Boxed<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let draft = plain_put(key, value);
            match self.put_draft(&draft, Tried::InCall).await? {
                Written::Done(version) => Ok(version),
                Written::Conflict(_) => Err(StoreError::Protocol {
                    what: "an unconditional put cannot conflict",
                }),
            }
        })
    }

    /// Like [`Writer::put`], without retries: `None` if the server has no room for the record at the moment, or if the
    /// value fits no record.
    pub fn put_once<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Boxed<'a, Result<Option<u64>, StoreError>> {
        Box::pin(async move {
            let draft = plain_put(key, value);
            if !self.fits_record(&draft) {
                return Ok(None);
            }
            match self.put_record(&draft, Tried::InCall).await? {
                (Verdict::Done, version) => Ok(Some(version)),
                (Verdict::Busy | Verdict::NoTime, _) => Ok(None),
                (verdict, number) => Err(self.failure(verdict, number)),
            }
        })
    }

    /// Does any put.
    pub fn store<'a>(
        &'a self,
        draft: &'a Draft<'a>,
        tried: Tried,
    ) -> Boxed<'a, Result<Written, StoreError>> {
        Box::pin(self.put_draft(draft, tried))
    }

    async fn put_draft(&self, draft: &Draft<'_>, tried: Tried) -> Result<Written, StoreError> {
        self.check_sizes(draft.key, draft.value)?;
        match self.fits_record(draft) {
            true => self.put_in_record(draft, tried).await,
            false => Box::pin(chunks::put_in_chunks(self, draft)).await,
        }
    }

    /// Does a put that fits a record.
    async fn put_in_record(&self, draft: &Draft<'_>, tried: Tried) -> Result<Written, StoreError> {
        for _ in 0..BUSY_RETRIES_MAX {
            match self.put_record(draft, tried).await? {
                (Verdict::Done, version) => return Ok(Written::Done(version)),
                (Verdict::Conflict, present) => {
                    return Ok(Written::Conflict((present != 0).then_some(present)));
                }
                (Verdict::Busy | Verdict::NoTime, _) => {
                    self.connection.runtime.sleep(BUSY_PAUSE_NS).await;
                }
                (verdict, number) => return Err(self.failure(verdict, number)),
            }
        }
        Err(StoreError::Busy)
    }

    /// Does any delete. `None`: there was nothing to remove.
    pub fn remove<'a>(
        &'a self,
        token: u64,
        key: &'a [u8],
        condition: Condition,
    ) -> Boxed<'a, Result<Option<Written>, StoreError>> {
        Box::pin(async move {
            check_key(key)?;
            for _ in 0..BUSY_RETRIES_MAX {
                let request = Request::Delete {
                    condition,
                    token,
                    key,
                };
                let Answer::Verdict { verdict, version } = self.connection.request(request).await?
                else {
                    return Err(StoreError::Protocol {
                        what: "the answer to a delete is no verdict",
                    });
                };
                match verdict {
                    Verdict::Done => {
                        let hash = self.connection.welcome.keys().route(key).hash;
                        self.locations.forget(hash);
                        return Ok(Some(Written::Done(version)));
                    }
                    Verdict::Absent => return Ok(None),
                    Verdict::Conflict => {
                        return Ok(Some(Written::Conflict((version != 0).then_some(version))));
                    }
                    Verdict::Busy | Verdict::NoTime => {
                        self.connection.runtime.sleep(BUSY_PAUSE_NS).await;
                    }
                    verdict => return Err(self.failure(verdict, version)),
                }
            }
            Err(StoreError::Busy)
        })
    }

    /// Gives up all extents, and returns their slots for their return.
    pub fn take_extents(&self) -> Vec<u8> {
        let mut slots = self.leases.take_all();
        let published = self.publisher.iter().filter_map(|it| it.take_extent());
        slots.extend(published);
        slots
    }

    /// Whether `value` can be stored under `key` at all.
    pub fn check_sizes(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check_key(key)?;
        let max = VALUE_SIZE_MAX;
        if value.len() > max {
            Err(StoreError::ValueSize {
                size: value.len(),
                max,
            })
        } else {
            Ok(())
        }
    }

    /// Whether `draft` fits a record, which lies in one segment.
    pub fn fits_record(&self, draft: &Draft<'_>) -> bool {
        draft.value.len() <= WHOLE_VALUE_SIZE_MAX && draft.size() <= self.segment_room()
    }

    /// Bytes of a segment that records may take.
    fn segment_room(&self) -> u64 {
        let units = self.connection.format.segment_units() - SEGMENT_HEADER_UNITS;
        u64::from(units) * UNIT_SIZE
    }

    /// The error for the `verdict` of a write that was not done; `number` came with the verdict.
    fn failure(&self, verdict: Verdict, number: u64) -> StoreError {
        match verdict {
            Verdict::NoSpace => StoreError::NoSpace {
                live: number,
                capacity: self.connection.format.segment_size
                    * u64::from(self.connection.format.segment_count),
            },
            Verdict::MediumFull => StoreError::MediumFull,
            Verdict::Failed => StoreError::NotPersisted,
            Verdict::Invalid => StoreError::Invalid,
            Verdict::IndexFull => StoreError::IndexFull,
            Verdict::NotPrimary => StoreError::NotPrimary {
                epoch: Epoch(number),
            },
            Verdict::ChunksGone => StoreError::ChunksGone,
            Verdict::TooFewCopies => StoreError::TooFewCopies { found: number },
            Verdict::NoBatch => StoreError::NoBatch,
            Verdict::TooLong => StoreError::EntrySize { max: number },
            Verdict::SpaceFailed => StoreError::SpaceFailed,
            _ => StoreError::Protocol {
                what: "the verdict does not fit the request",
            },
        }
    }

    /// One attempt of a put, in its turn.
    async fn put_record(
        &self,
        draft: &Draft<'_>,
        tried: Tried,
    ) -> Result<(Verdict, u64), StoreError> {
        let may_do_in_call = tried == Tried::Nothing || self.turns.is_locked();
        let turn = self.turns.lock().await;
        self.connection.check_open()?;
        let is_plain = draft.form == Form::Whole
            && draft.condition == Condition::None
            && draft.token == 0
            && draft.expires.is_none();
        if let Some(publisher) = self.publisher.as_ref().filter(|_| is_plain) {
            if may_do_in_call
                && let Some(version) = publisher.overwrite_in_call(draft.key, draft.value)
            {
                turn.unlock_for_all().await;
                return Ok((Verdict::Done, version));
            }
            // Boxed, so that a put through the server has no room for this future: see the test of its size.
            if let Some(version) = Box::pin(publisher.overwrite(draft)).await? {
                return Ok((Verdict::Done, version));
            }
        }
        self.send_record(turn, draft, Cargo::Record).await
    }

    /// Sends a record, or one that brings a batch, and waits for the answer.
    async fn send_record(
        &self,
        turn: FairGuard<'_>,
        draft: &Draft<'_>,
        cargo: Cargo,
    ) -> Result<(Verdict, u64), StoreError> {
        let size = draft.size();
        let mut pauses = 0;
        loop {
            if let Some(refused) = self.find_room(size, &mut pauses).await? {
                return Ok(refused);
            }
            // Nothing waits between here and the post, so records are posted in the order of their places.
            let (handle, offset) = self.connection.begin(size, true);
            let spot = self.leases.place(size, offset);
            let operation = self.stage(draft, &spot, offset, cargo);
            if let Some(answered) = self.connection.send(handle, operation)? {
                drop(turn);
                self.leases.lease_ahead();
                let answer = answered.await?;
                return self.take_answer(answer, (draft, cargo), size, &spot);
            }
            // The place stays empty: the next record names its own place.
            if pauses == BUSY_RETRIES_MAX {
                return Err(StoreError::Busy);
            }
            pauses += 1;
            self.connection.runtime.sleep(BUSY_PAUSE_NS).await;
        }
    }

    /// Waits until a record of `size` bytes has a place in the log, and in staging memory. `Some`: the record gets no
    /// place, for the reason that the server gives. The turn is kept: later writes stay behind this one.
    async fn find_room(
        &self,
        size: u64,
        pauses: &mut u32,
    ) -> Result<Option<(Verdict, u64)>, StoreError> {
        loop {
            self.connection.check_open()?;
            if self.leases.has_room(size) {
                if self.connection.has_room(size).await {
                    return Ok(None);
                }
                continue;
            }
            match self.leases.make_room(size).await? {
                None => {}
                // Space is being made, or comes back.
                Some((Verdict::Busy, _)) if *pauses < BUSY_RETRIES_MAX => {
                    *pauses += 1;
                    self.leases.give_up();
                    self.connection.runtime.sleep(BUSY_PAUSE_NS).await;
                }
                Some((Verdict::Busy, _)) => return Err(StoreError::Busy),
                Some(refused) => {
                    self.leases.give_up();
                    return Ok(Some(refused));
                }
            }
        }
    }

    /// Writes the client's part of the record for `spot`, everything behind the stamp, to `offset` of the staging
    /// memory. Returns the operation that brings that part to the server.
    fn stage(&self, draft: &Draft<'_>, spot: &Spot, offset: u64, cargo: Cargo) -> Operation {
        let record = &mut *self.record.borrow_mut();
        let (format, opening) = (&self.connection.format, &self.connection.welcome.opening);
        draft.encode(
            format,
            spot.position,
            spot.generation,
            opening.get(),
            record,
        );
        Operation::WriteWithImmediate {
            local: self.connection.stage(offset, &record[STAMP_SIZE..]),
            remote: spot.remote,
            immediate: match cargo {
                Cargo::Record => immediate(spot.slot, spot.unit),
                Cargo::Batch => immediate_of_batch(spot.slot, spot.unit),
            },
        }
    }

    /// Takes the answer to the record of `size` bytes at `spot`.
    fn take_answer(
        &self,
        answer: Answer,
        (draft, cargo): (&Draft<'_>, Cargo),
        size: u64,
        spot: &Spot,
    ) -> Result<(Verdict, u64), StoreError> {
        let Answer::Verdict {
            mut verdict,
            version,
        } = answer
        else {
            return Err(StoreError::Protocol {
                what: "the answer to a put is no verdict",
            });
        };
        if verdict == Verdict::DoneReturn {
            self.leases.give_up_all();
            verdict = Verdict::Done;
        }
        if verdict == Verdict::Done && cargo == Cargo::Record && !self.leases.copies() {
            let keys = self.connection.welcome.keys();
            let hash = keys.route_of(draft.form, draft.key).hash;
            let word = Word::new(spot.position, spot.generation, hash, size);
            self.locations.learn_written(hash, word);
        }
        if verdict == Verdict::Busy {
            self.leases.was_taken_back(spot.slot);
        }
        Ok((verdict, version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each put allocates its future. The allocators of C libraries keep freed blocks of up to about a KiB at hand, and
    /// merge and split longer ones.
    #[test]
    fn the_future_of_a_put_is_short_and_rare_paths_are_boxed() {
        fn size<F>(_: impl FnOnce(&'static Writer, &'static Draft<'static>) -> F) -> usize {
            size_of::<F>()
        }
        let put = size(|writer, draft| writer.put_draft(draft, Tried::Nothing));
        assert!(put <= 768, "{put} bytes");
    }
}
