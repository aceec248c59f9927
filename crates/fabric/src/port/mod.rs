//! The asynchronous interface of a device: pairs completions with the futures that wait for them.
//!
//! ```text
//!   submit --- takes a slot ---> post_send(wr_id = slot * 2 + last)
//!                 |                      |
//!   future waits on the slot       device works
//!                 |                      |
//!   woken <--- slot finished <--- pump: poll the completion queue
//! ```
//!
//! A port owns one completion queue for sends and one for receives. The code that drives the program calls
//! [`Port::pump`] often. The pump moves completions out of the device, wakes the futures that waited for them, and
//! keeps arrivals and connection events until they are taken: by the inbox that claimed their queue pair (see
//! `inbox.rs`), or else from the port itself.
//!
//! Invariants:
//! - A future holds a slot number, never memory that a NIC touches, so dropping a future is harmless at any moment: its
//!   slot is reused only after the last completion of its batch. The local spans of the batch belong to the device
//!   until then. The lender of the memory learns of that moment by the drop of a value that the batch holds.
//! - Wakers and the device are called with nothing borrowed, so both may call the port.
//! - A thread waits in the call for READs only while no task waits for anything else, see `solitude.rs`.
//! - A future that is always ready yields after [`TURNS_MAX`] times, so that a loop of one-sided operations, which many
//!   providers complete inside the post, starves neither other tasks nor arrivals.

mod inbox;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

use inbox::{Activity, Inboxes, OWN, Wakers};

pub use inbox::Inbox;

use crate::solitude::Solitude;
use crate::{
    ChangeNow, CompletionQueue, ConnectionEvent, Device, DeviceError, Fenceable, LocalSpan,
    Operation, QueuePair, ReadInto, RemoteAddress, Rkey, Status, WorkCompletion, WorkRequest,
};

/// An arrival: the completion of a receive.
pub type Received = WorkCompletion;

/// Access of one thread to a device.
///
/// The sum of the send capacities of its queue pairs must not exceed the capacity of the port, and the same holds for
/// receives; otherwise a completion queue can overrun, and futures whose completions were lost end only when
/// [`Port::destroy_queue_pair`] is called. Only the port posts sends on queue pairs that complete into
/// [`Port::send_cq`].
pub struct Port {
    device: Rc<dyn Device>,
    send_cq: CompletionQueue,
    receive_cq: CompletionQueue,
    state: RefCell<State>,
    inboxes: RefCell<Inboxes>,
    /// Memory for completions in transit, kept between calls.
    scratch: Cell<Vec<WorkCompletion>>,
    /// Futures that were ready at once since the last pump.
    turns: Cell<u32>,
    solitude: Solitude,
}

/// The outcome of READs that were to end in the call; see [`Port::read_soon`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soon {
    /// Nothing was posted.
    NotPosted,
    /// All of them have succeeded.
    Done,
    /// The READs were posted, and their outcome is not known yet. Their local bytes belong to the device until a later
    /// post on the same queue pair has completed. A failure shows in the end of the connection.
    Late,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// An outstanding batch.
struct Slot {
    qp: QueuePair,
    /// First failure of the batch so far, if any.
    failure: Option<Status>,
    stage: Stage,
    waker: Option<Waker>,
    /// Dropped when the last completion has come.
    held: Held,
}

/// A value that a batch keeps alive for its caller.
type Held = Option<Rc<dyn Any>>;

/// The values that the end of a batch drops, with nothing borrowed.
struct Ended {
    waker: Option<Waker>,
    _held: Held,
}

impl Ended {
    fn wake(self) {
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Free,
    /// Posted, with a waiting future.
    Waited,
    /// Posted, and the future is gone.
    Abandoned,
    /// The last completion has come and the future has not seen it yet.
    Finished,
}

/// `wr_id` of requests whose completion no future awaits.
const NOBODY: u64 = u64::MAX;
/// Completions taken from the device in one go; bounds the time until other work runs.
const POLL_BATCH: usize = 64;
/// Number of times that futures may be ready at once before one yields. A yield costs about as much as one operation.
const TURNS_MAX: u32 = 64;
/// Polls for the end of READs that are awaited in the call. A poll that finds nothing takes ten to twenty nanoseconds,
/// so the bound is many times the duration of a READ in a rack.
const LOOKS_MAX: u32 = 4096;

type AllEnded = SmallVec<[Ended; 8]>;

impl Port {
    /// A port on `device` with completion queues of `capacity` entries each.
    pub fn new(device: Rc<dyn Device>, capacity: u32) -> Result<Self, DeviceError> {
        let send_cq = device.create_completion_queue(capacity)?;
        let receive_cq = device.create_completion_queue(capacity)?;
        let (state, inboxes, scratch, turns, solitude) = Default::default();
        Ok(Self {
            device,
            send_cq,
            receive_cq,
            state,
            inboxes,
            scratch,
            turns,
            solitude,
        })
    }

    /// The device.
    pub fn device(&self) -> &Rc<dyn Device> {
        &self.device
    }

    /// The queue to which queue pairs of this port must report completed sends.
    pub fn send_cq(&self) -> CompletionQueue {
        self.send_cq
    }

    /// The queue to which queue pairs of this port must report arrivals.
    pub fn receive_cq(&self) -> CompletionQueue {
        self.receive_cq
    }

    /// Moves the results of the device into this port and wakes the waiters. Returns whether there were any.
    pub fn pump(&self) -> bool {
        self.turns.set(0);
        let sent = self.collect_sent();
        let arrived = self.collect_arrived();
        sent || arrived
    }

    fn collect_sent(&self) -> bool {
        let mut completions = self.polled(self.send_cq);
        if completions.is_empty() {
            self.scratch.set(completions);
            return false;
        }
        let mut ended = AllEnded::new();
        let mut state = self.state.borrow_mut();
        for completion in completions
            .drain(..)
            .filter(|completion| completion.wr_id != NOBODY)
        {
            ended.extend(state.complete(&completion));
        }
        drop(state);
        self.scratch.set(completions);
        ended.into_iter().for_each(Ended::wake);
        true
    }

    fn collect_arrived(&self) -> bool {
        let mut completions = self.polled(self.receive_cq);
        let mut arrived = !completions.is_empty();
        let mut woken = Wakers::new();
        if arrived {
            let arrivals = completions.drain(..);
            self.inboxes.borrow_mut().deliver(arrivals, &mut woken);
        }
        self.scratch.set(completions);
        while let Some(event) = self.device.poll_connection() {
            let mut inboxes = self.inboxes.borrow_mut();
            inboxes.deliver_event(event, &mut woken);
            arrived = true;
        }
        woken.into_iter().for_each(Waker::wake);
        arrived
    }

    /// Completions of `cq`, in the scratch memory, which must be given back.
    fn polled(&self, cq: CompletionQueue) -> Vec<WorkCompletion> {
        let mut completions = self.scratch.take();
        completions.clear();
        self.device.poll(cq, POLL_BATCH, &mut completions);
        completions
    }

    /// Posts `operations` as one batch and waits until all have completed: the status of the first that failed, or
    /// success. Earlier operations of a failed batch may have taken effect. Operations with a fence are made by
    /// [`Operation::fenced`].
    pub async fn submit<T: Copy + Into<Fenceable>>(
        &self,
        qp: QueuePair,
        operations: &[T],
    ) -> Result<Status, DeviceError> {
        self.submit_holding(qp, operations, None).await
    }

    async fn submit_holding<T: Copy + Into<Fenceable>>(
        &self,
        qp: QueuePair,
        operations: &[T],
        held: Held,
    ) -> Result<Status, DeviceError> {
        let Some(last) = operations.len().checked_sub(1) else {
            return Ok(Status::Success);
        };
        let index = self.state.borrow_mut().take_slot(qp, held);
        let requests: SmallVec<[WorkRequest; 4]> = operations
            .iter()
            .enumerate()
            .map(|(position, &operation)| {
                let Fenceable { operation, fence } = operation.into();
                WorkRequest {
                    wr_id: u64::from(index) << 1 | u64::from(position == last),
                    operation,
                    signalled: position == last,
                    fence,
                }
            })
            .collect();
        if let Err(error) = self.device.post_send(qp, &requests) {
            let _let_go_unborrowed = self.state.borrow_mut().free_slot(index);
            return Err(error);
        }
        self.solitude.begin();
        Ok(Completion {
            port: self,
            index,
            gave_way: false,
        }
        .await)
    }

    /// Posts `operations` as one unsignalled batch. Success is never reported; a failure shows in the connection's end.
    pub fn post(
        &self,
        qp: QueuePair,
        operations: impl IntoIterator<Item = impl Into<Fenceable>>,
    ) -> Result<(), DeviceError> {
        let requests: SmallVec<[WorkRequest; 4]> = operations
            .into_iter()
            .map(|operation| {
                let Fenceable { operation, fence } = operation.into();
                WorkRequest {
                    wr_id: NOBODY,
                    operation,
                    signalled: false,
                    fence,
                }
            })
            .collect();
        self.device.post_send(qp, &requests)
    }

    /// Reads into memory of the caller, all with one doorbell. `scratch` is registered local memory for the bytes in
    /// transit if the provider cannot read in the call. It must hold the sum of the sizes, each rounded up to 8, and
    /// belongs to the device until the READs have completed, even if the future is dropped earlier. `held` is kept that
    /// long, so that the lender of the memory learns of the end by its drop.
    pub async fn read(
        &self,
        qp: QueuePair,
        reads: &mut [ReadInto<'_>],
        scratch: LocalSpan,
        held: Option<Rc<dyn Any>>,
    ) -> Result<Status, DeviceError> {
        if let Some(status) = self.device.read_now(qp, reads) {
            self.take_turn().await;
            return Ok(status);
        }
        let mut end = scratch.offset;
        let operations: SmallVec<[Operation; 4]> = reads
            .iter()
            .map(|read| {
                let size = u32::try_from(read.into.len()).expect("a READ is shorter than 4 GiB");
                let local = LocalSpan {
                    region: scratch.region,
                    offset: end,
                    size,
                };
                end += u64::from(size).next_multiple_of(8);
                Operation::Read {
                    local,
                    remote: read.remote,
                }
            })
            .collect();
        assert!(
            end - scratch.offset <= u64::from(scratch.size),
            "the scratch memory holds all reads of a batch"
        );
        let status = self.submit_holding(qp, &operations, held).await?;
        if status == Status::Success {
            let memory = self.device.memory(scratch.region);
            for (operation, read) in operations.iter().zip(reads) {
                let Operation::Read { local, .. } = operation else {
                    unreachable!("all of them are READs")
                };
                memory.read(local.offset, read.into);
            }
        }
        Ok(status)
    }

    /// Whether [`Port::read_soon`] would post something at this moment.
    #[inline]
    pub fn may_read_soon(&self) -> bool {
        self.solitude.is_alone()
    }

    /// Posts READs as one batch and waits in the call until they have succeeded, if the device's READs are fast
    /// ([`Capabilities::read_soon`](crate::Capabilities::read_soon)): no future, no waker and no turn of the executor
    /// lies between their end and the caller's next step. Meant for a caller that waits for nothing else on this port.
    ///
    /// Nothing is posted while a future waits for another batch. After some calls in a row nothing is posted until a
    /// batch that let others run ([`Port::read`]) has ended and was the only one: a loop of these calls must include
    /// such a batch.
    pub fn read_soon(&self, qp: QueuePair, reads: &[(LocalSpan, RemoteAddress)]) -> Soon {
        if !self.solitude.may_wait() {
            return Soon::NotPosted;
        }
        match self.device.read_soon(qp, reads, NOBODY, LOOKS_MAX) {
            Ok(true) => {
                self.solitude.in_time();
                Soon::Done
            }
            Ok(false) => {
                self.solitude.in_vain();
                Soon::Late
            }
            Err(_) => Soon::NotPosted,
        }
    }

    /// Changes the peer's memory from memory of the caller, all with one doorbell. `scratch` and `held` are as for
    /// [`Port::read`]: an abandoned change is still sent from `scratch`.
    pub async fn change(
        &self,
        qp: QueuePair,
        changes: &mut [ChangeNow<'_>],
        scratch: LocalSpan,
        held: Option<Rc<dyn Any>>,
    ) -> Result<Status, DeviceError> {
        if self.device.change_now(qp, changes) {
            self.take_turn().await;
            return Ok(Status::Success);
        }
        let memory = self.device.memory(scratch.region);
        let mut end = scratch.offset;
        let mut place = |size: usize| {
            let size = u32::try_from(size).expect("a change is shorter than 4 GiB");
            let local = LocalSpan {
                region: scratch.region,
                offset: end,
                size,
            };
            end += u64::from(size).next_multiple_of(8);
            assert!(
                end - scratch.offset <= u64::from(scratch.size),
                "the scratch memory holds all changes of a batch"
            );
            local
        };
        let operations: SmallVec<[Operation; 4]> = changes
            .iter()
            .map(|change| match *change {
                ChangeNow::Write { remote, from } => {
                    let local = place(from.len());
                    memory.write(local.offset, from);
                    Operation::Write { local, remote }
                }
                ChangeNow::CompareAndSwap {
                    remote,
                    expected,
                    swap,
                    ..
                } => Operation::CompareAndSwap {
                    local: place(8),
                    remote,
                    expected,
                    swap,
                },
                ChangeNow::FetchAndAdd { remote, add, .. } => Operation::FetchAndAdd {
                    local: place(8),
                    remote,
                    add,
                },
            })
            .collect();
        let status = self.submit_holding(qp, &operations, held).await?;
        if status == Status::Success {
            for (operation, change) in operations.iter().zip(changes) {
                let (Operation::CompareAndSwap { local, .. }
                | Operation::FetchAndAdd { local, .. }) = operation
                else {
                    continue;
                };
                let (ChangeNow::CompareAndSwap { found, .. }
                | ChangeNow::FetchAndAdd { found, .. }) = change
                else {
                    continue;
                };
                let mut word = [0; 8];
                memory.read(local.offset, &mut word);
                **found = u64::from_ne_bytes(word);
            }
        }
        Ok(status)
    }

    /// Destroys a queue pair like [`Device::destroy_queue_pair`]. Futures that wait for it end with
    /// [`Status::WorkRequestFlushed`]; its remaining events are dropped.
    ///
    /// Returns its remaining arrivals: each holds a receive buffer, which the poster may post to the shared queue
    /// again. Arrivals that the port has not pumped out of the device are lost with the queue pair.
    pub fn destroy_queue_pair(&self, qp: QueuePair) -> Result<Vec<Received>, DeviceError> {
        self.device.destroy_queue_pair(qp)?;
        let untaken = self.inboxes.borrow_mut().forget(qp);
        let ended = self.state.borrow_mut().forget(qp);
        ended.into_iter().for_each(Ended::wake);
        Ok(untaken)
    }

    /// Takes the oldest arrival that no [`Inbox`] has claimed.
    #[inline]
    pub fn take_received(&self) -> Option<Received> {
        self.inboxes.borrow_mut().tray(OWN).received.pop_front()
    }

    /// Takes the oldest connection event that no [`Inbox`] has claimed, requests of peers included.
    pub fn take_event(&self) -> Option<ConnectionEvent> {
        self.inboxes.borrow_mut().tray(OWN).events.pop_front()
    }

    /// Whether [`Port::take_received`] or [`Port::take_event`] has something.
    pub fn has_activity(&self) -> bool {
        self.inboxes.borrow_mut().tray(OWN).has_any()
    }

    /// Waits until [`Port::take_received`] or [`Port::take_event`] has something.
    pub fn activity(&self) -> impl Future<Output = ()> {
        Activity::new(self, OWN)
    }

    /// Ends the influence of the peer of `qp` on this side; see [`Device::poll_quiesce`].
    pub async fn quiesce(&self, qp: QueuePair) -> Result<(), DeviceError> {
        poll_fn(|context| self.device.poll_quiesce(qp, context)).await
    }

    /// Revokes a key; see [`Device::poll_invalidate`].
    pub async fn invalidate(&self, rkey: Rkey) -> Result<(), DeviceError> {
        poll_fn(|context| self.device.poll_invalidate(rkey, context)).await
    }

    /// Whether a future may be ready at once; if not, it is woken and must return pending.
    #[inline]
    fn may_be_ready(&self, context: &Context<'_>) -> bool {
        if self.turns.get() < TURNS_MAX {
            self.turns.set(self.turns.get() + 1);
            return true;
        }
        // The count starts again from 0; otherwise an executor that does not pump would poll without end.
        self.turns.set(0);
        context.waker().wake_by_ref();
        false
    }

    /// Yields now and then. Meant for code that executes operations in the call without this port, so that a loop of
    /// them starves neither other tasks nor arrivals.
    #[inline]
    pub async fn take_turn(&self) {
        poll_fn(|context| self.poll_turn(context)).await;
    }

    /// Like [`Port::take_turn`], for futures that are made by hand: either ready, or the caller is woken and must
    /// return pending.
    #[inline]
    pub fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        if self.may_be_ready(context) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl State {
    fn take_slot(&mut self, qp: QueuePair, held: Held) -> u32 {
        let slot = Slot {
            qp,
            failure: None,
            stage: Stage::Waited,
            waker: None,
            held,
        };
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1)
                    .expect("memory ends before 2^32 batches are outstanding")
            }
        }
    }

    fn free_slot(&mut self, index: u32) -> Held {
        let slot = &mut self.slots[index as usize];
        slot.stage = Stage::Free;
        self.free.push(index);
        slot.held.take()
    }

    /// Notes a completion in its slot, and returns the values that end with it.
    fn complete(&mut self, completion: &WorkCompletion) -> Option<Ended> {
        let index = (completion.wr_id >> 1) as usize;
        let slot = self
            .slots
            .get_mut(index)
            .filter(|slot| matches!(slot.stage, Stage::Waited | Stage::Abandoned));
        let slot = slot
            .unwrap_or_else(|| panic!("no outstanding batch has this completion: {completion:?}"));
        if completion.status != Status::Success && slot.failure.is_none() {
            slot.failure = Some(completion.status);
        }
        let last = completion.wr_id & 1 == 1;
        last.then(|| self.finish(index as u32))
    }

    /// Ends a slot whose last completion has come, or will never come.
    fn finish(&mut self, index: u32) -> Ended {
        let slot = &mut self.slots[index as usize];
        if slot.stage == Stage::Abandoned {
            return Ended {
                waker: None,
                _held: self.free_slot(index),
            };
        }
        slot.stage = Stage::Finished;
        Ended {
            waker: slot.waker.take(),
            _held: slot.held.take(),
        }
    }

    /// Ends everything of a destroyed queue pair, and returns it.
    fn forget(&mut self, qp: QueuePair) -> AllEnded {
        let mut ended = AllEnded::new();
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.qp == qp && matches!(slot.stage, Stage::Waited | Stage::Abandoned) {
                slot.failure.get_or_insert(Status::WorkRequestFlushed);
                ended.push(self.finish(index as u32));
            }
        }
        ended
    }
}

/// Waits for the last completion of a batch.
struct Completion<'a> {
    port: &'a Port,
    index: u32,
    /// Whether other tasks ran during the wait.
    gave_way: bool,
}

impl Completion<'_> {
    fn status(&self) -> Option<Status> {
        let state = self.port.state.borrow();
        let slot = &state.slots[self.index as usize];
        (slot.stage == Stage::Finished).then(|| slot.failure.unwrap_or(Status::Success))
    }
}

impl Future for Completion<'_> {
    type Output = Status;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Status> {
        // If one-sided operations complete inside the post, the completion is already there: one poll saves a turn of
        // the executor.
        let status = self.status().or_else(|| {
            self.port.collect_sent();
            self.status()
        });
        match status {
            Some(status) if self.port.may_be_ready(context) => Poll::Ready(status),
            Some(_) => {
                self.gave_way = true;
                Poll::Pending
            }
            None => {
                self.gave_way = true;
                let waker = context.waker().clone();
                let _dropped_unborrowed = self.port.state.borrow_mut().slots[self.index as usize]
                    .waker
                    .replace(waker);
                Poll::Pending
            }
        }
    }
}

impl Drop for Completion<'_> {
    fn drop(&mut self) {
        let mut state = self.port.state.borrow_mut();
        let slot = &mut state.slots[self.index as usize];
        let waker = slot.waker.take();
        if slot.stage == Stage::Finished {
            // The slot has already dropped the value that it held.
            state.free_slot(self.index);
        } else {
            slot.stage = Stage::Abandoned;
        }
        drop(state);
        self.port.solitude.end(self.gave_way);
        // The drop of a waker may end a task that calls back.
        drop(waker);
    }
}
