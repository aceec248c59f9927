//! Counts the traffic of a device: costs as facts.

use std::cell::RefCell;
use std::ops::Sub;

use super::Observer;
use crate::{
    ChangeNow, CompletionQueue, LocalSpan, Opcode, Operation, QueuePair, ReadInto, ReceiveQueue,
    ReceiveRequest, RemoteAddress, Status, WorkCompletion, WorkRequest,
};

/// The traffic of a device since it was made. The difference of two values is the cost of the work in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches of work requests that were accepted, including READs and changes executed in the call.
    pub doorbells: u64,
    /// WRITEs without an immediate.
    pub writes: u64,
    /// WRITE_WITH_IMMs that were accepted.
    pub writes_with_immediate: u64,
    /// SENDs that were accepted.
    pub sends: u64,
    /// READs, posted or in the call.
    pub reads: u64,
    /// CASs, posted or in the call.
    pub compare_and_swaps: u64,
    /// FAAs, posted or in the call.
    pub fetch_and_adds: u64,
    /// FLUSHes that were accepted.
    pub flushes: u64,
    /// ATOMIC_WRITEs that were accepted.
    pub atomic_writes: u64,
    /// Work requests that were signalled.
    pub signalled: u64,
    /// Payload of WRITEs, WRITE_WITH_IMMs and SENDs.
    pub bytes_out: u64,
    /// Payload of READs.
    pub bytes_in: u64,
    /// Batches of receive buffers that were accepted.
    pub receive_doorbells: u64,
    /// Receive buffers.
    pub receive_buffers: u64,
    /// Completions of work requests.
    pub completions: u64,
    /// Arrivals, and returned multi-packet buffers.
    pub arrivals: u64,
    /// Completions and arrivals without success.
    pub failures: u64,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            doorbells: self.doorbells - earlier.doorbells,
            writes: self.writes - earlier.writes,
            writes_with_immediate: self.writes_with_immediate - earlier.writes_with_immediate,
            sends: self.sends - earlier.sends,
            reads: self.reads - earlier.reads,
            compare_and_swaps: self.compare_and_swaps - earlier.compare_and_swaps,
            fetch_and_adds: self.fetch_and_adds - earlier.fetch_and_adds,
            flushes: self.flushes - earlier.flushes,
            atomic_writes: self.atomic_writes - earlier.atomic_writes,
            signalled: self.signalled - earlier.signalled,
            bytes_out: self.bytes_out - earlier.bytes_out,
            bytes_in: self.bytes_in - earlier.bytes_in,
            receive_doorbells: self.receive_doorbells - earlier.receive_doorbells,
            receive_buffers: self.receive_buffers - earlier.receive_buffers,
            completions: self.completions - earlier.completions,
            arrivals: self.arrivals - earlier.arrivals,
            failures: self.failures - earlier.failures,
        }
    }
}

/// An observer that counts the traffic of its device.
#[derive(Debug, Default)]
pub struct Meter {
    counts: RefCell<Counts>,
}

impl Meter {
    /// The traffic so far.
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }
}

impl Observer for Meter {
    fn sent(&self, _: QueuePair, requests: &[WorkRequest]) {
        let counts = &mut *self.counts.borrow_mut();
        counts.doorbells += 1;
        for request in requests {
            counts.signalled += u64::from(request.signalled);
            match request.operation {
                Operation::Write { local, .. } => {
                    counts.writes += 1;
                    counts.bytes_out += u64::from(local.size);
                }
                Operation::WriteWithImmediate { local, .. } => {
                    counts.writes_with_immediate += 1;
                    counts.bytes_out += u64::from(local.size);
                }
                Operation::Send { local } => {
                    counts.sends += 1;
                    counts.bytes_out += u64::from(local.size);
                }
                Operation::Read { local, .. } => {
                    counts.reads += 1;
                    counts.bytes_in += u64::from(local.size);
                }
                Operation::CompareAndSwap { .. } => counts.compare_and_swaps += 1,
                Operation::FetchAndAdd { .. } => counts.fetch_and_adds += 1,
                Operation::Flush { .. } => counts.flushes += 1,
                Operation::AtomicWrite { .. } => counts.atomic_writes += 1,
            }
        }
    }

    fn posted_receive(&self, _: ReceiveQueue, requests: &[ReceiveRequest]) {
        let counts = &mut *self.counts.borrow_mut();
        counts.receive_doorbells += 1;
        counts.receive_buffers += requests.len() as u64;
    }

    fn completed(&self, _: CompletionQueue, completions: &[WorkCompletion]) {
        let counts = &mut *self.counts.borrow_mut();
        for completion in completions {
            let arrival = matches!(
                completion.opcode,
                Opcode::Receive | Opcode::ReceiveWriteWithImmediate
            );
            counts.arrivals += u64::from(arrival);
            counts.completions += u64::from(!arrival);
            counts.failures += u64::from(completion.status != Status::Success);
        }
    }

    fn changed_now(&self, _: QueuePair, changes: &[ChangeNow<'_>]) {
        let counts = &mut *self.counts.borrow_mut();
        counts.doorbells += 1;
        for change in changes {
            match change {
                ChangeNow::Write { from, .. } => {
                    counts.writes += 1;
                    counts.bytes_out += from.len() as u64;
                }
                ChangeNow::CompareAndSwap { .. } => counts.compare_and_swaps += 1,
                ChangeNow::FetchAndAdd { .. } => counts.fetch_and_adds += 1,
            }
        }
    }

    fn read_now(&self, _: QueuePair, reads: &[ReadInto<'_>], status: Status) {
        let counts = &mut *self.counts.borrow_mut();
        counts.doorbells += 1;
        counts.reads += reads.len() as u64;
        counts.bytes_in += reads.iter().map(|read| read.into.len() as u64).sum::<u64>();
        counts.failures += u64::from(status != Status::Success);
    }

    fn read_soon(&self, _: QueuePair, reads: &[(LocalSpan, RemoteAddress)], succeeded: bool) {
        let counts = &mut *self.counts.borrow_mut();
        counts.doorbells += 1;
        counts.reads += reads.len() as u64;
        counts.signalled += 1;
        counts.bytes_in += reads
            .iter()
            .map(|(local, _)| u64::from(local.size))
            .sum::<u64>();
        // Batches that did not end in the call complete like posted ones.
        counts.completions += u64::from(succeeded);
    }
}
