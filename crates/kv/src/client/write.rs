//! Writing: a put is one WRITE_WITH_IMM of the record to its final place, a delete one SEND; each is answered after it is
//! durable and visible.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_fabric::{DeviceError, LocalSpan, Operation};
use stonecast_log::{
    Condition, Draft, KEY_SIZE_MAX, Kind, SEGMENT_HEADER_UNITS, STAMP_SIZE, UNIT_SIZE,
    VALUE_SIZE_MAX, record_size,
};

use super::extents::Spot;
use super::meter::Call;
use super::pending::{Ended, Ticket};
use super::{Client, Inner};
use crate::error::StoreError;
use crate::wire::{Answer, Release, Request, Verdict, immediate};
use crate::wire::{KeyHash, Word};

/// How a conditional write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Done: the key's version now. For a delete, the version that the delete itself got.
    Done(u64),
    /// The condition did not hold: the key's present version, `None` if it is absent. Nothing was done.
    Conflict(Option<u64>),
}

/// Pause before asking again for space that is being prepared, cleaned or taken back.
const BUSY_PAUSE_NS: u64 = 200_000;
/// How often that is asked: 20 seconds, more than preparing a segment takes on the slowest disk. What has not come by then is
/// [`StoreError::Busy`].
const BUSY_RETRIES_MAX: u32 = 100_000;

impl Client {
    /// Stores `value` under `key` and returns its version. When it returns, the write is durable as declared and visible
    /// to every client. On an error see [`StoreError::effect`].
    ///
    /// Puts of one client that are in flight together are committed in the order in which they were first polled, as long
    /// as the server does not send one back for want of staging memory (copying clients of a pool that is nearly full).
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, StoreError> {
        let start = self.inner.begin_call();
        if let Some(version) = self.put_in_call(key, value).await {
            self.inner.end_call(Call::Write, start);
            return Ok(version);
        }
        let result = self.store(0, key, value, Condition::None).await;
        self.inner.end_call(Call::Write, start);
        match result? {
            Written::Done(version) => Ok(version),
            Written::Conflict(_) => Err(StoreError::Protocol {
                what: "an unconditional put cannot conflict",
            }),
        }
    }

    /// A put that its client publishes in the call, if it can: its version.
    #[inline]
    async fn put_in_call(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let version = self.inner.publish_at_once(key, value)?;
        self.inner.port.take_turn().await;
        Some(version)
    }

    /// Like `put`, but does not come again where the server has no room for the record at the moment: `None`, and nothing was
    /// done. For puts of a key that others of this client follow while it is in flight: whatever is done of them is done in
    /// the order in which they were first polled, so the last one decides.
    pub async fn put_at_once(&self, key: &[u8], value: &[u8]) -> Result<Option<u64>, StoreError> {
        self.check_sizes(key, value)?;
        let start = self.inner.begin_call();
        if let Some(version) = self.put_in_call(key, value).await {
            self.inner.end_call(Call::Write, start);
            return Ok(Some(version));
        }
        let draft = Draft {
            kind: Kind::Put,
            condition: Condition::None,
            token: 0,
            key,
            value,
        };
        let result = self.inner.put_record(&draft).await;
        self.inner.end_call(Call::Write, start);
        match result? {
            (Verdict::Done, version) => Ok(Some(version)),
            (Verdict::Busy, _) => Ok(None),
            (verdict, number) => Err(self.inner.failure(verdict, number)),
        }
    }

    /// Like `put`, if `condition` holds at the moment of the write. Of two concurrent writes that name the same version
    /// one is done.
    pub async fn put_if(
        &self,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Written, StoreError> {
        self.put_named(0, key, value, condition).await
    }

    pub(super) fn check_sizes(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check_key(key)?;
        let max = self.inner.value_size_max(key.len());
        if value.len() > max {
            Err(StoreError::ValueSize {
                size: value.len(),
                max,
            })
        } else {
            Ok(())
        }
    }

    pub(super) async fn put_named(
        &self,
        token: u64,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Written, StoreError> {
        let start = self.inner.begin_call();
        let result = self.store(token, key, value, condition).await;
        self.inner.end_call(Call::Write, start);
        result
    }

    async fn store(
        &self,
        token: u64,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Written, StoreError> {
        self.check_sizes(key, value)?;
        let draft = Draft {
            kind: Kind::Put,
            condition,
            token,
            key,
            value,
        };
        for _ in 0..BUSY_RETRIES_MAX {
            match self.inner.put_record(&draft).await? {
                (Verdict::Done, version) => return Ok(Written::Done(version)),
                (Verdict::Conflict, present) => {
                    return Ok(Written::Conflict((present != 0).then_some(present)));
                }
                (Verdict::Busy, _) => self.inner.runtime.sleep(BUSY_PAUSE_NS).await,
                (verdict, number) => return Err(self.inner.failure(verdict, number)),
            }
        }
        Err(StoreError::Busy)
    }

    /// Removes `key`. Whether it was there. Durable and visible when it returns.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        match self.delete_if(key, Condition::None).await? {
            Some(Written::Done(_)) => Ok(true),
            Some(Written::Conflict(_)) => Err(StoreError::Protocol {
                what: "an unconditional delete cannot conflict",
            }),
            None => Ok(false),
        }
    }

    /// Removes `key` if `condition` holds. `None`: there was nothing to remove. With [`Condition::Absent`] nothing is ever
    /// removed: a key that is there is a conflict.
    pub async fn delete_if(
        &self,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, StoreError> {
        self.delete_named(0, key, condition).await
    }

    pub(super) async fn delete_named(
        &self,
        token: u64,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, StoreError> {
        let start = self.inner.begin_call();
        let result = self.remove(token, key, condition).await;
        self.inner.end_call(Call::Write, start);
        result
    }

    async fn remove(
        &self,
        token: u64,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, StoreError> {
        check_key(key)?;
        for _ in 0..BUSY_RETRIES_MAX {
            match self
                .inner
                .request(Request::Delete {
                    condition,
                    token,
                    key,
                })
                .await?
            {
                Answer::Verdict {
                    verdict: Verdict::Done,
                    version,
                } => {
                    self.inner
                        .locations
                        .forget(KeyHash::of(self.inner.format.tag_key, key));
                    return Ok(Some(Written::Done(version)));
                }
                Answer::Verdict {
                    verdict: Verdict::Absent,
                    ..
                } => return Ok(None),
                Answer::Verdict {
                    verdict: Verdict::Conflict,
                    version,
                } => {
                    return Ok(Some(Written::Conflict((version != 0).then_some(version))));
                }
                Answer::Verdict {
                    verdict: Verdict::Busy,
                    ..
                } => self.inner.runtime.sleep(BUSY_PAUSE_NS).await,
                Answer::Verdict { verdict, version } => {
                    return Err(self.inner.failure(verdict, version));
                }
                _ => {
                    return Err(StoreError::Protocol {
                        what: "the answer to a delete is no verdict",
                    });
                }
            }
        }
        Err(StoreError::Busy)
    }
}

pub(super) fn check_key(key: &[u8]) -> Result<(), StoreError> {
    if (1..=KEY_SIZE_MAX).contains(&key.len()) {
        Ok(())
    } else {
        Err(StoreError::KeySize {
            size: key.len(),
            max: KEY_SIZE_MAX,
        })
    }
}

impl Inner {
    /// Longest value for a key of `key_size` bytes: the store's limit, less in a pool of small segments, because a record
    /// lies in one segment.
    fn value_size_max(&self, key_size: usize) -> usize {
        let units = self.format.segment_units() - SEGMENT_HEADER_UNITS;
        let room = u64::from(units) * UNIT_SIZE - record_size(key_size, 0);
        VALUE_SIZE_MAX.min(room as usize)
    }

    /// What `verdict` says of a write that was not done; `number` came with it.
    fn failure(&self, verdict: Verdict, number: u64) -> StoreError {
        match verdict {
            Verdict::NoSpace => StoreError::NoSpace {
                live: number,
                capacity: self.format.segment_size * u64::from(self.format.segment_count),
            },
            Verdict::MediumFull => StoreError::MediumFull,
            Verdict::Failed => StoreError::NotPersisted,
            Verdict::Invalid => StoreError::Invalid,
            Verdict::IndexFull => StoreError::IndexFull,
            Verdict::SpaceFailed => StoreError::SpaceFailed,
            _ => StoreError::Protocol {
                what: "the verdict does not fit the request",
            },
        }
    }

    async fn put_record(self: &Rc<Self>, draft: &Draft<'_>) -> Result<(Verdict, u64), StoreError> {
        let size = record_size(draft.key.len(), draft.value.len());
        let turn = self.turns.take().await;
        self.check_open()?;
        if let Some(version) = self.publish_in_turn(draft) {
            turn.end_for_all().await;
            return Ok((Verdict::Done, version));
        }
        if let Some(version) = self.publish(draft).await? {
            return Ok((Verdict::Done, version));
        }
        let mut pauses = 0;
        loop {
            self.check_open()?;
            let unused = self.extents.borrow_mut().use_at(self.runtime.now());
            unused
                .into_iter()
                .for_each(|slot| self.release_beside(slot));
            if !self.extents.borrow().has_room(size) {
                match self.lease(size).await? {
                    None => {}
                    // Space is being made, or comes back. The turn is kept: writes asked for later stay behind this one.
                    Some((Verdict::Busy, _)) if pauses < BUSY_RETRIES_MAX => {
                        pauses += 1;
                        self.give_up_extent();
                        self.runtime.sleep(BUSY_PAUSE_NS).await;
                    }
                    Some((Verdict::Busy, _)) => return Err(StoreError::Busy),
                    Some(refused) => {
                        self.give_up_extent();
                        return Ok(refused);
                    }
                }
                continue;
            }
            if !self.pending.borrow().has_room(size) {
                self.room(size).await;
                continue;
            }
            // From here to the post nothing waits, so records are posted in the order of their places.
            let (ticket, offset) = self
                .pending
                .borrow_mut()
                .begin(size)
                .expect("there is room, it was just looked at");
            self.pending.borrow_mut().note_put();
            let spot = self
                .extents
                .borrow_mut()
                .place(size, offset)
                .expect("there is room, it was just looked at");
            let local = LocalSpan {
                region: self.made.staging,
                offset,
                size: self.stage(draft, &spot, offset),
            };
            let operation = Operation::WriteWithImmediate {
                local,
                remote: spot.remote,
                immediate: immediate(spot.slot, spot.unit),
            };
            if !self.send(ticket, operation)? {
                // The place stays empty: what comes behind it says where it is.
                if pauses == BUSY_RETRIES_MAX {
                    return Err(StoreError::Busy);
                }
                pauses += 1;
                self.runtime.sleep(BUSY_PAUSE_NS).await;
                continue;
            }
            drop(turn);
            if self.extents.borrow().should_lease_ahead() {
                self.lease_ahead();
            }
            return match (Answered {
                inner: self,
                ticket,
            })
            .await
            {
                Ok(Answer::Verdict {
                    mut verdict,
                    version,
                }) => {
                    if verdict == Verdict::DoneReturn {
                        // Behind all that was posted to them: nothing on its way is refused.
                        let all = self.extents.borrow_mut().take_all();
                        all.into_iter().for_each(|slot| self.release_beside(slot));
                        verdict = Verdict::Done;
                    }
                    if verdict == Verdict::Done && !self.extents.borrow().copies() {
                        let hash = KeyHash::of(self.format.tag_key, draft.key);
                        self.locations.learn_written(
                            hash,
                            Word::new(spot.position, spot.generation, hash, size),
                        );
                    }
                    if verdict == Verdict::Busy && self.extents.borrow_mut().forget(spot.slot) {
                        self.release_beside(spot.slot);
                    }
                    Ok((verdict, version))
                }
                Ok(_) => Err(StoreError::Protocol {
                    what: "the answer to a put is no verdict",
                }),
                Err(Ended) => Err(StoreError::Disconnected { unknown: true }),
            };
        }
    }

    /// Writes what the client writes of the record for `spot`, all behind its stamp, to `offset` of the staging memory. Returns
    /// how many bytes that are.
    fn stage(&self, draft: &Draft<'_>, spot: &Spot, offset: u64) -> u32 {
        let record = &mut *self.record.borrow_mut();
        draft.encode(
            &self.format,
            spot.position,
            spot.generation,
            self.welcome.epoch.get(),
            record,
        );
        let written = &record[STAMP_SIZE..];
        self.port
            .device()
            .memory(self.made.staging)
            .write(offset, written);
        written.len() as u32
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(&self, request: Request<'_>) -> Result<Answer, StoreError> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let size = (bytes.len() as u64).next_multiple_of(64);
        for _ in 0..BUSY_RETRIES_MAX {
            while !self.pending.borrow().has_room(size) {
                self.check_open()?;
                self.room(size).await;
            }
            self.check_open()?;
            let (ticket, offset) = self
                .pending
                .borrow_mut()
                .begin(size)
                .expect("there is room, it was just looked at");
            self.port
                .device()
                .memory(self.made.staging)
                .write(offset, &bytes);
            let local = LocalSpan {
                region: self.made.staging,
                offset,
                size: bytes.len() as u32,
            };
            if self.send(ticket, Operation::Send { local })? {
                return (Answered {
                    inner: self,
                    ticket,
                })
                .await
                .map_err(|Ended| StoreError::Disconnected { unknown: true });
            }
            self.runtime.sleep(BUSY_PAUSE_NS).await;
        }
        Err(StoreError::Busy)
    }

    /// Posts what `ticket` waits for. False: the send queue is full, though few operations are in flight, and the ticket is void.
    /// What was answered is there until it was acknowledged, which in a network that loses acknowledgements takes until the
    /// connection ends; a client that asks for room all the while fills the queue.
    fn send(&self, ticket: Ticket, operation: Operation) -> Result<bool, StoreError> {
        match self.port.post(self.qp, [operation]) {
            Ok(()) => {
                self.meter.note_round_trip();
                Ok(true)
            }
            Err(error) => {
                self.pending.borrow_mut().cancel(ticket);
                if matches!(error, DeviceError::QueueFull { .. }) {
                    Ok(false)
                } else {
                    Err(error.into())
                }
            }
        }
    }

    /// Makes room for a record of `size` bytes. `Some`: there is none, and what the server says.
    async fn lease(self: &Rc<Self>, size: u64) -> Result<Option<(Verdict, u64)>, StoreError> {
        let advanced = self.extents.borrow_mut().advance(size);
        if let Some(old) = advanced {
            if let Some(slot) = old {
                self.release_beside(slot);
            }
            return Ok(None);
        }
        if !self.extents.borrow_mut().begin_leasing() {
            // Somebody else is at it.
            poll_fn(|context| self.extents.borrow_mut().poll_leased(context)).await;
            return Ok(None);
        }
        // In a task of its own: a put that is given up while its lease is under way must not lose the lease.
        self.in_task(async move |inner: &Rc<Self>| inner.lease_next(size).await)
            .await
    }

    /// Does `work` in a task of its own, which ends it also where the future that is returned is dropped.
    pub(super) fn in_task<T: 'static>(
        self: &Rc<Self>,
        work: impl AsyncFnOnce(&Rc<Self>) -> T + 'static,
    ) -> impl Future<Output = T> {
        let result = Rc::new(RefCell::new((None, None::<Waker>)));
        let (inner, place) = (self.clone(), result.clone());
        self.runtime.spawn(Box::pin(async move {
            let outcome = work(&inner).await;
            let waker = {
                let place = &mut *place.borrow_mut();
                place.0 = Some(outcome);
                place.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }));
        poll_fn(move |context| {
            let place = &mut *result.borrow_mut();
            place.1 = Some(context.waker().clone());
            place.0.take().map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Gives the extent in use back, which has no room for what is to be written.
    fn give_up_extent(self: &Rc<Self>) {
        let slot = self.extents.borrow_mut().give_up();
        slot.into_iter().for_each(|slot| self.release_beside(slot));
    }

    /// Gives an extent back beside the caller.
    pub(super) fn release_beside(self: &Rc<Self>, slot: u8) {
        let inner = self.clone();
        self.runtime.spawn(Box::pin(async move {
            // Where the server is gone there is nothing to give back to.
            let _ = inner.release(slot).await;
        }));
    }

    /// Leases the next extent; `begin_leasing` was called.
    async fn lease_next(&self, size: u64) -> Result<Option<(Verdict, u64)>, StoreError> {
        let guard = Leasing(self);
        let answer = self
            .request(Request::Lease {
                size: size as u32,
                publishes: false,
            })
            .await?;
        drop(guard);
        match answer {
            Answer::Lease(grant) => {
                if let Some(what) = self.extents.borrow().fault(&grant, size) {
                    return Err(StoreError::Protocol { what });
                }
                let displaced = self.extents.borrow_mut().put_next(grant);
                if let Some(slot) = displaced {
                    self.release(slot).await?;
                }
                Ok(None)
            }
            Answer::Verdict { verdict, version } => Ok(Some((verdict, version))),
            _ => Err(StoreError::Protocol {
                what: "the answer to a lease request is none",
            }),
        }
    }

    /// Leases the next extent beside the caller. What fails shows when the extent is needed.
    fn lease_ahead(self: &Rc<Self>) {
        if self.extents.borrow_mut().begin_leasing() {
            let inner = self.clone();
            self.runtime.spawn(Box::pin(async move {
                let _ = inner.lease_next(0).await;
            }));
        }
    }

    /// Gives an extent back. Everything written into it was posted before.
    pub(super) async fn release(&self, slot: u8) -> Result<(), StoreError> {
        self.request(Request::Release(Release { slot }))
            .await
            .map(drop)
    }

    /// Waits until `size` bytes may find room.
    async fn room(&self, size: u64) {
        std::future::poll_fn(|context| {
            let mut pending = self.pending.borrow_mut();
            if pending.has_room(size) || self.closed.get() {
                return Poll::Ready(());
            }
            pending.wait_for_room(context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// Ends the leasing however the request ends, also when its future is dropped.
struct Leasing<'a>(&'a Inner);

impl Drop for Leasing<'_> {
    fn drop(&mut self) {
        let waiting = self.0.extents.borrow_mut().end_leasing();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Waits for an answer.
struct Answered<'a> {
    inner: &'a Inner,
    ticket: Ticket,
}

impl Future for Answered<'_> {
    type Output = Result<Answer, Ended>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner
            .pending
            .borrow_mut()
            .poll(self.ticket, context.waker())
    }
}

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        self.inner.pending.borrow_mut().forget(self.ticket);
    }
}
