//! Work requests and their completions.

use std::fmt;

use crate::{MemoryRegion, QueuePair, Rkey};

/// Bytes of registered local memory (one scatter/gather entry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSpan {
    /// The region.
    pub region: MemoryRegion,
    /// Bytes from the region's start.
    pub offset: u64,
    /// Length in bytes.
    pub size: u32,
}

/// A place in a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Remote virtual address in bytes.
    pub address: u64,
    /// The key that opens it.
    pub rkey: Rkey,
}

impl RemoteAddress {
    /// The place `offset` bytes after this one.
    pub const fn at(self, offset: u64) -> Self {
        Self {
            address: self.address + offset,
            rkey: self.rkey,
        }
    }
}

/// The guarantee of a FLUSH (InfiniBand specification volume 1, release 1.6, placement types).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPlacement {
    /// Earlier writes are visible to every agent of the responder.
    Global,
    /// Earlier writes are in the responder's persistence domain.
    Persistent,
}

/// The task of a work request. Sizes are those of the local span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// RDMA WRITE. Posted.
    Write {
        /// The bytes to write.
        local: LocalSpan,
        /// The first byte of the destination.
        remote: RemoteAddress,
    },
    /// RDMA WRITE that also consumes a receive at the responder and hands it 32 bits. Posted.
    WriteWithImmediate {
        /// Source; may be empty.
        local: LocalSpan,
        /// The first byte of the destination.
        remote: RemoteAddress,
        /// The value that the responder's completion carries.
        immediate: u32,
    },
    /// SEND into the responder's next receive buffer. Posted.
    Send {
        /// The message.
        local: LocalSpan,
    },
    /// RDMA READ. Non-posted.
    Read {
        /// The destination, as long as the bytes to read.
        local: LocalSpan,
        /// The first byte to read.
        remote: RemoteAddress,
    },
    /// 8-byte compare-and-swap; the word found goes to `local` (8 bytes). Non-posted.
    CompareAndSwap {
        /// The destination of the word found.
        local: LocalSpan,
        /// The aligned word.
        remote: RemoteAddress,
        /// The value that the word must have for the swap.
        expected: u64,
        /// The new value.
        swap: u64,
    },
    /// 8-byte fetch-and-add; the word found goes to `local` (8 bytes). Non-posted.
    FetchAndAdd {
        /// The destination of the word found.
        local: LocalSpan,
        /// The aligned word.
        remote: RemoteAddress,
        /// The summand; the addition wraps.
        add: u64,
    },
    /// FLUSH of `size` bytes, at least one. Non-posted. An error completion means that the outcome is *unknown*.
    Flush {
        /// First byte.
        remote: RemoteAddress,
        /// Number of bytes.
        size: u64,
        /// The guarantee.
        placement: FlushPlacement,
    },
    /// ATOMIC_WRITE: 8 bytes, ordered after earlier non-posted operations. Non-posted.
    AtomicWrite {
        /// The aligned word.
        remote: RemoteAddress,
        /// The value to store.
        value: u64,
    },
}

/// An operation of a batch, with or without the fence flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenceable {
    /// The operation.
    pub operation: Operation,
    /// Whether to wait until every earlier non-posted operation of this queue pair has completed.
    pub fence: bool,
}

impl Operation {
    /// This operation, ordered after every earlier non-posted operation of its queue pair: a WRITE does not overtake a
    /// READ.
    pub const fn fenced(self) -> Fenceable {
        Fenceable {
            operation: self,
            fence: true,
        }
    }
}

/// Without the fence flag.
impl From<Operation> for Fenceable {
    fn from(operation: Operation) -> Self {
        Self {
            operation,
            fence: false,
        }
    }
}

/// One posted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// Returned in the completion.
    pub wr_id: u64,
    /// The operation.
    pub operation: Operation,
    /// Whether success makes a completion. Failures always make one.
    pub signalled: bool,
    /// Whether to wait until every earlier non-posted operation of this queue pair has completed.
    pub fence: bool,
}

impl WorkRequest {
    /// READs as one batch under one `wr_id`, the last of them signalled.
    pub fn reads(reads: &[(LocalSpan, RemoteAddress)], wr_id: u64) -> Vec<Self> {
        let request = |(index, &(local, remote)): (usize, &(LocalSpan, RemoteAddress))| Self {
            wr_id,
            operation: Operation::Read { local, remote },
            signalled: index + 1 == reads.len(),
            fence: false,
        };
        reads.iter().enumerate().map(request).collect()
    }
}

/// A receive buffer. In a multi-packet queue it takes many messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// Returned in each completion that used the buffer.
    pub wr_id: u64,
    /// The destination of messages.
    pub local: LocalSpan,
}

/// The outcome of a work request. The outcome is data, not an error: the poster decides on its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Done, as far as the operation promises.
    Success,
    /// The receive buffer was too small for the message (responder side).
    LocalLength,
    /// A local span is outside its region.
    LocalProtection,
    /// The queue pair is in the error state, so the request was not executed.
    WorkRequestFlushed,
    /// The responder found the request malformed: misaligned atomic, message too long for the buffer, a
    /// WRITE_WITH_IMM to a multi-packet queue.
    RemoteInvalidRequest,
    /// The rkey is unknown, revoked, lacks the right, or does not cover the bytes.
    RemoteAccess,
    /// The responder could not complete the request.
    RemoteOperation,
    /// The peer does not answer: it is dead, or unreachable for longer than the retries. Whether it executed the
    /// request is unknown.
    RetryExceeded,
    /// The responder had no receive buffer for longer than the RNR retries.
    RnrRetryExceeded,
}

/// The meaning of the status for the request, for people.
impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Success => "success",
            Self::LocalLength => "the receive buffer is too small for the message",
            Self::LocalProtection => "a local span is outside its region",
            Self::WorkRequestFlushed => "not executed: the queue pair has failed",
            Self::RemoteInvalidRequest => "the peer found the request malformed",
            Self::RemoteAccess => "the peer's key does not cover the bytes, or lacks the right",
            Self::RemoteOperation => "the peer could not complete the request",
            Self::RetryExceeded => "the peer does not answer",
            Self::RnrRetryExceeded => "the peer has no receive buffer for the message",
        })
    }
}

/// The kind of the completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// WRITE or WRITE_WITH_IMM of this side.
    Write,
    /// SEND of this side.
    Send,
    /// READ of this side.
    Read,
    /// CAS of this side.
    CompareAndSwap,
    /// FAA of this side.
    FetchAndAdd,
    /// FLUSH of this side.
    Flush,
    /// ATOMIC_WRITE of this side.
    AtomicWrite,
    /// A SEND of the peer arrived.
    Receive,
    /// A WRITE_WITH_IMM of the peer arrived.
    ReceiveWriteWithImmediate,
}

/// The place of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bytes from the start of the receive buffer; not 0 only with a multi-packet queue.
    pub offset: u32,
    /// Length of the message in bytes. For a WRITE_WITH_IMM, the bytes written.
    pub size: u32,
}

/// A message in a buffer of a multi-packet queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Identifier of the buffer.
    pub wr_id: u64,
    /// The place in the buffer.
    pub placement: Placement,
}

/// The result of a work request or the arrival of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The `wr_id` of the work request or of the receive buffer.
    pub wr_id: u64,
    /// The outcome.
    pub status: Status,
    /// The kind of the operation.
    pub opcode: Opcode,
    /// The queue pair.
    pub qp: QueuePair,
    /// The 32 bits of a WRITE_WITH_IMM.
    pub immediate: u32,
    /// The place of a received message.
    pub placement: Placement,
}
