//! The asynchronous face of a device: pairs completions with the futures that wait for them.
//!
//! A port owns one completion queue for sends and one for receives. Whoever drives the program calls [`Port::pump`]
//! often; it moves completions out of the device, wakes the futures that waited for them, and keeps arrivals and
//! connection events until they are taken. A future holds a slot number, never memory that a NIC touches, so dropping
//! one at any moment is harmless: its slot is freed when the completion comes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::{
    CompletionQueue, ConnectionEvent, Device, DeviceError, Operation, QueuePair, ReadInto, Rkey, Status, WorkCompletion,
    WorkRequest,
};

/// An arrival: the completion of a receive.
pub type Received = WorkCompletion;

/// One thread's access to a device. See the module documentation.
pub struct Port {
    device: Rc<dyn Device>,
    send_cq: CompletionQueue,
    receive_cq: CompletionQueue,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    received: VecDeque<Received>,
    events: VecDeque<ConnectionEvent>,
    activity: Vec<Waker>,
    scratch: Vec<WorkCompletion>,
}

#[derive(Default)]
struct Slot {
    /// First failure of the batch, or success.
    status: Option<Status>,
    finished: bool,
    abandoned: bool,
    waker: Option<Waker>,
}

/// `wr_id` of requests whose completion nobody waits for.
const NOBODY: u64 = u64::MAX;
/// Completions taken from the device in one go; bounds the time until other work gets its turn.
const POLL_BATCH: usize = 64;

impl Port {
    /// A port on `device` with completion queues of `capacity` entries each.
    pub fn new(device: Rc<dyn Device>, capacity: u32) -> Result<Self, DeviceError> {
        let send_cq = device.create_completion_queue(capacity)?;
        let receive_cq = device.create_completion_queue(capacity)?;
        Ok(Self { device, send_cq, receive_cq, state: RefCell::default() })
    }

    /// The device.
    pub fn device(&self) -> &Rc<dyn Device> {
        &self.device
    }

    /// Where queue pairs of this port must report completed sends.
    pub fn send_cq(&self) -> CompletionQueue {
        self.send_cq
    }

    /// Where queue pairs of this port must report arrivals.
    pub fn receive_cq(&self) -> CompletionQueue {
        self.receive_cq
    }

    /// Moves what the device has into this port and wakes who waited. Returns whether there was anything.
    pub fn pump(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let mut worked = false;
        state.scratch.clear();
        self.device.poll(self.send_cq, POLL_BATCH, &mut state.scratch);
        for completion in &state.scratch {
            worked = true;
            if completion.wr_id == NOBODY {
                continue;
            }
            let index = (completion.wr_id >> 1) as usize;
            let slot = &mut state.slots[index];
            if completion.status != Status::Success && slot.status.is_none() {
                slot.status = Some(completion.status);
            }
            let last = completion.wr_id & 1 == 1;
            if !last {
                continue;
            }
            slot.finished = true;
            if slot.abandoned {
                *slot = Slot::default();
                state.free.push(index as u32);
            } else if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
        state.scratch.clear();
        self.device.poll(self.receive_cq, POLL_BATCH, &mut state.scratch);
        let mut arrived = !state.scratch.is_empty();
        state.received.extend(state.scratch.drain(..));
        while let Some(event) = self.device.poll_connection() {
            state.events.push_back(event);
            arrived = true;
        }
        if arrived {
            state.activity.drain(..).for_each(Waker::wake);
        }
        worked || arrived
    }

    /// Posts `operations` as one batch and waits until all have completed: the status of the first that failed, or
    /// success. Earlier operations of a failed batch may have taken effect.
    pub async fn submit(&self, qp: QueuePair, operations: &[Operation]) -> Result<Status, DeviceError> {
        let Some(last) = operations.len().checked_sub(1) else { return Ok(Status::Success) };
        let index = self.take_slot();
        let requests: Vec<WorkRequest> = operations
            .iter()
            .enumerate()
            .map(|(position, &operation)| WorkRequest {
                wr_id: u64::from(index) << 1 | u64::from(position == last),
                operation,
                signalled: position == last,
                fence: false,
            })
            .collect();
        if let Err(error) = self.device.post_send(qp, &requests) {
            self.free_slot(index);
            return Err(error);
        }
        Ok(Completion { port: self, index }.await)
    }

    /// Posts `operations` as one unsignalled batch. Success is never reported; a failure shows in the connection's end.
    pub fn post(&self, qp: QueuePair, operations: impl IntoIterator<Item = Operation>) -> Result<(), DeviceError> {
        let requests: smallvec::SmallVec<[WorkRequest; 4]> = operations
            .into_iter()
            .map(|operation| WorkRequest { wr_id: NOBODY, operation, signalled: false, fence: false })
            .collect();
        self.device.post_send(qp, &requests)
    }

    /// Reads into memory of the caller, all with one doorbell. `scratch` is registered local memory that takes the
    /// bytes on their way where the provider cannot read at once; it must hold the sum of the sizes.
    pub async fn read(
        &self,
        qp: QueuePair,
        reads: &mut [ReadInto<'_>],
        scratch: crate::LocalSpan,
    ) -> Result<Status, DeviceError> {
        if let Some(status) = self.device.read_now(qp, reads) {
            return Ok(status);
        }
        let mut offset = scratch.offset;
        let operations: Vec<Operation> = reads
            .iter()
            .map(|read| {
                let size = read.into.len() as u32;
                let local = crate::LocalSpan { region: scratch.region, offset, size };
                offset += u64::from(size).next_multiple_of(8);
                Operation::Read { local, remote: read.remote }
            })
            .collect();
        assert!(offset <= scratch.offset + u64::from(scratch.size), "the scratch memory holds all reads of a batch");
        let status = self.submit(qp, &operations).await?;
        if status == Status::Success {
            let memory = self.device.memory(scratch.region);
            let mut offset = scratch.offset;
            for read in reads {
                memory.read(offset, read.into);
                offset += (read.into.len() as u64).next_multiple_of(8);
            }
        }
        Ok(status)
    }

    /// Takes the oldest arrival.
    pub fn take_received(&self) -> Option<Received> {
        self.state.borrow_mut().received.pop_front()
    }

    /// Takes the oldest connection event.
    pub fn take_event(&self) -> Option<ConnectionEvent> {
        self.state.borrow_mut().events.pop_front()
    }

    /// Whether an arrival or a connection event can be taken.
    pub fn has_activity(&self) -> bool {
        let state = self.state.borrow();
        !state.received.is_empty() || !state.events.is_empty()
    }

    /// Waits until an arrival or a connection event can be taken.
    pub async fn activity(&self) {
        poll_fn(|context| {
            if self.has_activity() {
                return Poll::Ready(());
            }
            self.state.borrow_mut().activity.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Revokes a key; see [`Device::poll_invalidate`].
    pub async fn invalidate(&self, rkey: Rkey) -> Result<(), DeviceError> {
        poll_fn(|context| self.device.poll_invalidate(rkey, context)).await
    }

    fn take_slot(&self) -> u32 {
        let state = &mut *self.state.borrow_mut();
        state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot::default());
            (state.slots.len() - 1) as u32
        })
    }

    fn free_slot(&self, index: u32) {
        let state = &mut *self.state.borrow_mut();
        state.slots[index as usize] = Slot::default();
        state.free.push(index);
    }
}

/// Waits for the last completion of a batch.
struct Completion<'a> {
    port: &'a Port,
    index: u32,
}

impl Future for Completion<'_> {
    type Output = Status;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Status> {
        let poll_once = || {
            let state = self.port.state.borrow();
            let slot = &state.slots[self.index as usize];
            slot.finished.then(|| slot.status.unwrap_or(Status::Success))
        };
        // Where one-sided operations complete inside the post, the completion is there already: one look saves a turn
        // of the executor.
        if let Some(status) = poll_once() {
            return Poll::Ready(status);
        }
        self.port.pump();
        if let Some(status) = poll_once() {
            return Poll::Ready(status);
        }
        self.port.state.borrow_mut().slots[self.index as usize].waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Completion<'_> {
    fn drop(&mut self) {
        let finished = self.port.state.borrow().slots[self.index as usize].finished;
        if finished {
            self.port.free_slot(self.index);
        } else {
            self.port.state.borrow_mut().slots[self.index as usize].abandoned = true;
        }
    }
}
