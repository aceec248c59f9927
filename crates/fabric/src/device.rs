//! The boundary: the duties of a provider of verbs.

use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_media::{PersistentRegion, Region};

use crate::{
    Access, Appended, CompletionQueue, ConnectionEvent, ConnectionRequest, LocalSpan, MemoryRegion,
    QueuePair, ReceiveRequest, RemoteAddress, Rkey, SharedReceiveQueue, Status, WorkCompletion,
    WorkRequest,
};

/// The capabilities of a device. Fixed for its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Provider and device, for messages.
    pub name: String,
    /// Longest SEND in bytes.
    pub send_size_max: u32,
    /// The most bytes of private data in a connection request or its answer.
    pub private_data_size_max: usize,
    /// Multi-packet shared receive queues.
    pub multi_packet: bool,
    /// Memory windows.
    pub memory_windows: bool,
    /// The device makes windows out of protection domains, one for each queue pair that was made for windows
    /// ([`QueuePairOptions::windows`]). Only such a queue pair can have windows; keys of regions may open nothing to
    /// its peer; and the queue pair cannot take its receive buffers from a shared queue. If this is false, no queue
    /// pair has these limits.
    pub protection_domains: bool,
    /// FLUSH with global visibility.
    pub flush_global: bool,
    /// FLUSH with persistence.
    pub flush_persistent: bool,
    /// ATOMIC_WRITE of 8 bytes.
    pub atomic_write: bool,
    /// READs are executed in the call unless something unusual prevents it: [`Device::read_now`].
    pub read_now: bool,
    /// A READ takes microseconds, and its result arrives while the posting thread does nothing but wait for it: waiting
    /// in the call costs less than letting others run. [`Device::read_soon`].
    pub read_soon: bool,
    /// Atomics of peers and those of the owner's processor on the same word are atomic with each other.
    pub atomic_with_processor: bool,
}

/// The agent that puts the bytes of SENDs, WRITEs and atomics into the responder's memory. A processor leaves the bytes
/// in one of its caches, regardless of the place to which the responder's NICs write (DDIO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// The responder's NIC.
    Nic,
    /// The requester's processor: both sides share the memory.
    RequesterProcessor,
    /// The responder's processor: its device is software that acts as a NIC.
    ResponderProcessor,
}

impl fmt::Display for Placing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nic => "the responder's NIC",
            Self::RequesterProcessor => "the requester's processor",
            Self::ResponderProcessor => "the responder's processor",
        })
    }
}

/// A post or a control call that the device refused; it had no effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The send or receive queue is full: completions must be polled first.
    #[error("queue is full ({capacity} entries)")]
    QueueFull {
        /// The capacity of the queue.
        capacity: u32,
    },
    /// The device lacks the capability.
    #[error("{device} has no {capability}")]
    Unsupported {
        /// The device.
        device: String,
        /// The missing capability.
        capability: &'static str,
    },
    /// The request is invalid whatever the peer holds: a FLUSH of no bytes, an atomic whose local span is not 8 bytes,
    /// a receive buffer or a window outside its region, own receive buffers for a queue pair that takes from a shared
    /// queue, a send on a queue pair that was never connected, the deregistration of a region that keys still open.
    #[error("malformed request: {reason}")]
    Malformed {
        /// The fault of the request.
        reason: &'static str,
    },
    /// The handle names no object, or no longer does.
    #[error("no such {what}: {index}")]
    NoSuch {
        /// Kind of object.
        what: &'static str,
        /// The handle's number.
        index: u64,
    },
    /// The memory cannot be registered.
    #[error("cannot register memory: {reason}")]
    Registration {
        /// Cause and remedy, for people.
        reason: String,
    },
    /// A NIC would write pages that only a sync makes durable. The kernel does not learn which pages a NIC has changed,
    /// so a sync may leave them out.
    #[error(
        "{device} may not write {size} bytes of an ordinary file that only a sync makes durable, because a sync does not cover what a \
         device has written: let the device write other memory and copy from there, or put the file on persistent memory (devdax)"
    )]
    SyncedFile {
        /// The device.
        device: String,
        /// Bytes of the region.
        size: u64,
    },
    /// The address cannot be used to listen or connect.
    #[error("cannot use address {address}: {reason}")]
    Address {
        /// The address.
        address: String,
        /// Cause and remedy, for people.
        reason: String,
    },
    /// A limit of the device is reached.
    #[error("too many {what}: at most {limit}")]
    Limit {
        /// The kind of object.
        what: &'static str,
        /// The largest number allowed.
        limit: u64,
    },
    /// The key is revoked, or the connection ended, but a peer that stopped in the middle of a write may still finish
    /// that write. The memory must not be reused until that peer is gone.
    #[error("peer {peer} has not left the memory; do not reuse it before that peer is gone")]
    Unquiesced {
        /// The peer.
        peer: String,
    },
    /// A call of the operating system failed.
    #[error("{doing}: {source}")]
    System {
        /// The attempt.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Options of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// The queue for completions of posted sends.
    pub send_cq: CompletionQueue,
    /// The queue for arrivals.
    pub receive_cq: CompletionQueue,
    /// The queue from which receive buffers are taken, instead of a queue of the queue pair.
    pub shared_receive_queue: Option<SharedReceiveQueue>,
    /// Whether windows will be opened to the peer. Matters only if the device makes windows out of protection domains
    /// ([`Capabilities::protection_domains`]).
    pub windows: bool,
    /// The most outstanding work requests on the send queue.
    pub send_capacity: u32,
    /// The most outstanding receive buffers of the receive queue that the queue pair has for itself.
    pub receive_capacity: u32,
    /// The number of retries of a send while the responder has no receive buffer; there is no "forever".
    pub rnr_retry_count: u32,
    /// Pause before each such retry, nanoseconds.
    pub rnr_retry_delay_ns: u64,
}

/// Options of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedReceiveQueueOptions {
    /// The most outstanding receive buffers.
    pub capacity: u32,
    /// Each buffer takes many messages, placed by the requester's NIC without the responder's CPU. SENDs only.
    pub multi_packet: Option<MultiPacketOptions>,
    /// The device never reposts a buffer by itself. A buffer that the device had taken for a request that it then
    /// refused (a WRITE_WITH_IMM with a wrong key) is used up, and completes with [`Status::WorkRequestFlushed`].
    /// Otherwise the device may repost such a buffer after all others, so that a later message lies at an earlier
    /// place.
    pub in_order: bool,
}

/// The layout of messages in the buffers of a multi-packet queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiPacketOptions {
    /// Each message begins at the next multiple of this many bytes.
    pub stride: u32,
    /// Whether each message makes a completion. A receiver that finds messages by reading its memory needs no
    /// completions: then arrivals take no room in completion queues, so no completion queue can overrun, and no one has
    /// to poll while buffers last.
    pub completions: bool,
    /// Strides that all posted buffers together may have; `None` for the number that the device has by default. A
    /// device that cannot have so many refuses the queue.
    pub strides: Option<u64>,
}

impl MultiPacketOptions {
    /// Strides of `stride` bytes; each message makes a completion.
    pub const fn telling(stride: u32) -> Self {
        Self {
            stride,
            completions: true,
            strides: None,
        }
    }

    /// Strides of `stride` bytes; messages make no completions.
    pub const fn silent(stride: u32) -> Self {
        Self {
            stride,
            completions: false,
            strides: None,
        }
    }

    /// The same options, with room for `strides` strides.
    pub const fn with_strides(self, strides: u64) -> Self {
        Self {
            strides: Some(strides),
            ..self
        }
    }
}

/// The receive queue that buffers are posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveQueue {
    /// The queue pair's own.
    Own(QueuePair),
    /// A shared one.
    Shared(SharedReceiveQueue),
}

/// A READ whose destination is memory of the caller; see [`Device::read_now`].
pub struct ReadInto<'a> {
    /// Source; as many bytes as `into` holds.
    pub remote: RemoteAddress,
    /// The destination, which need not be registered.
    pub into: &'a mut [u8],
}

/// A change of the peer's memory whose source, or the word found, is memory of the caller; see [`Device::change_now`].
pub enum ChangeNow<'a> {
    /// WRITE of the bytes of `from`.
    Write {
        /// The first byte of the destination.
        remote: RemoteAddress,
        /// The bytes to write, which need not be registered.
        from: &'a [u8],
    },
    /// 8-byte compare-and-swap.
    CompareAndSwap {
        /// The aligned word.
        remote: RemoteAddress,
        /// The value that the word must have for the swap.
        expected: u64,
        /// The new value.
        swap: u64,
        /// The word found.
        found: &'a mut u64,
    },
    /// 8-byte fetch-and-add.
    FetchAndAdd {
        /// The aligned word.
        remote: RemoteAddress,
        /// The summand; the addition wraps.
        add: u64,
        /// The word found.
        found: &'a mut u64,
    },
}

/// A context on one NIC. Belongs to one thread.
///
/// Every provider makes these promises (the contract suite, [`crate::contract`], has a case for each):
///
/// *Ordering, per queue pair.* Operations take effect at the responder in the order in which they were posted, except
/// that a posted operation may overtake earlier *non-posted* ones unless it carries the fence flag. READ, CAS, FAA,
/// FLUSH and ATOMIC_WRITE take effect after everything before them. Completions come in posting order. There is no
/// promise across queue pairs. Within one WRITE the order of bytes is unspecified; aligned 8-byte words are whole.
///
/// *Without the responder's CPU.* WRITE, READ, CAS, FAA, FLUSH, ATOMIC_WRITE, and SENDs into a multi-packet queue that
/// has room, make progress whether or not the responder polls.
///
/// *Refusal.* A post that is malformed on its face is refused whole and has no effect: an operation that the device
/// lacks ([`DeviceError::Unsupported`]), a SEND longer than the device sends ([`DeviceError::Limit`]), a request that
/// [`DeviceError::Malformed`] lists. Private data that is too long is a [`DeviceError::Limit`].
///
/// *Failure.* The first failed operation completes with its status and puts the queue pair into the error state. Every
/// later or outstanding work request of that queue pair, receives included, completes with
/// [`Status::WorkRequestFlushed`], in posting order. Buffers of a shared receive queue stay there, unless the queue has
/// another option ([`SharedReceiveQueueOptions::in_order`]). Posts to a failed queue pair are accepted and flushed. A
/// failed operation has not changed memory outside the bytes that it named, and no memory at all for
/// [`Status::RemoteAccess`], [`Status::RemoteInvalidRequest`] and [`Status::LocalProtection`]. The connection ends:
/// with [`DisconnectCause::QueuePairError`](crate::DisconnectCause::QueuePairError) on the side that failed, and on the
/// other side with the same cause or [`DisconnectCause::Requested`](crate::DisconnectCause::Requested), as far as that
/// side can tell.
///
/// *Receives.* Buffers are used in the order in which they were posted. A SEND or WRITE_WITH_IMM that finds none waits
/// (RNR) for the number of retries of its queue pair and then fails with [`Status::RnrRetryExceeded`]; requests posted
/// after it wait with it. A SEND that is longer than its buffer ends with [`Status::LocalLength`] at the responder and
/// [`Status::RemoteInvalidRequest`] at the requester.
///
/// *Multi-packet receives.* A message takes the strides that it needs, and at least one, directly after the message
/// before it; a message that does not fit the rest of a buffer goes to the next buffer. Messages of one sender lie in
/// posting order. Messages of several senders become visible in any order, so a message may lie after a place that is
/// still empty. The queue gives each buffer back once ([`Device::poll_consumed`]), when all its messages are in memory
/// and their completions can be polled, even if the senders and their queue pairs are gone. A message longer than a
/// whole buffer is a [`Status::RemoteInvalidRequest`]. Only SENDs go there; a WRITE_WITH_IMM is a
/// [`Status::RemoteInvalidRequest`].
///
/// *Queues.* A work request leaves the send queue when it completes; an unsignalled request leaves by itself once it is
/// done and the device is polled. A batch that does not fit is refused whole with [`DeviceError::QueueFull`].
///
/// *Completion queues* are bounded. A completion queue that overruns loses completions and puts every queue pair that
/// uses it into the error state. It never overruns while its capacity holds the send and receive capacities of all its
/// queue pairs, each stride of a multi-packet queue counted.
///
/// *Empty operations* (size 0) within a valid range succeed and change nothing. Whether they check key and range is
/// unspecified.
///
/// *Revocation.* Once [`Device::poll_invalidate`] has returned `Ready(Ok)`, no request that a peer posts or has posted
/// can read or change memory through that key. A key number does not come back with the next binding or registration.
///
/// *Quiescing.* The revocation of a key stops no SEND. Once [`Device::poll_quiesce`] has returned `Ready(Ok)`, no
/// request that the peer of that queue pair posts or has posted there changes memory, and the buffers for its messages
/// can be reused. Every completion of that queue pair, of its own receive buffers too, can be polled then, and none
/// comes later. Only completions that an overrun or the failure of a device lost are missing. Other queue pairs are
/// unharmed.
///
/// *End of a connection.* [`ConnectionEvent::Disconnected`] comes once on each side that did not destroy its queue
/// pair, and outstanding requests complete with an error: [`Status::WorkRequestFlushed`], or [`Status::RetryExceeded`]
/// if a peer died.
pub trait Device {
    /// The capabilities of the device.
    fn capabilities(&self) -> &Capabilities;
    /// The agent that puts the posts of peers into the memory of this side. [`Placing::RequesterProcessor`] holds in
    /// both directions, because such a device reaches only devices of its kind. Fixed for the life of the device.
    fn placing(&self) -> Placing;

    /// Allocates and registers private volatile memory of `size` bytes, zeroed.
    fn allocate(&self, size: u64, access: Access) -> Result<MemoryRegion, DeviceError>;
    /// Registers memory that another component owns.
    fn register(&self, memory: Rc<dyn Region>, access: Access)
    -> Result<MemoryRegion, DeviceError>;
    /// Registers persistent memory: like `register`, and FLUSH with persistence may be granted.
    fn register_persistent(
        &self,
        memory: Rc<dyn PersistentRegion>,
        access: Access,
    ) -> Result<MemoryRegion, DeviceError>;
    /// Ends a registration. Its key and windows must have been invalidated.
    fn deregister(&self, region: MemoryRegion) -> Result<(), DeviceError>;
    /// The memory behind a registration, for use by this side.
    fn memory(&self, region: MemoryRegion) -> Rc<dyn Region>;
    /// Opens `size` bytes from `offset` of a region to the peer of one connected queue pair (type 2 memory window),
    /// which should have been made for windows ([`QueuePairOptions::windows`]).
    fn bind_window(
        &self,
        qp: QueuePair,
        region: MemoryRegion,
        offset: u64,
        size: u64,
        access: Access,
    ) -> Result<Rkey, DeviceError>;
    /// Revokes a key of a window or of a region. Idempotent. `Ready(Ok)` is the moment after which the key opens
    /// nothing. `Ready(Err(Unquiesced))` means that a stopped peer may still be inside.
    fn poll_invalidate(
        &self,
        rkey: Rkey,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>>;

    /// Ends the influence of the peer of `qp` on this side. An existing connection ends first, as by
    /// [`Device::disconnect`]. `Ready(Ok)` is the moment after which no request posted at the other end lands: no byte
    /// of a SEND, a WRITE or an atomic. `Ready(Err(Unquiesced))` means that a peer that stopped in the middle of a
    /// request may still finish it; its receive buffers must not be reused until a later call returns `Ready(Ok)`, at
    /// the latest when that peer is gone. Idempotent, and possible after the connection has ended by itself; such an
    /// end alone promises none of this. A queue pair that was never connected is refused ([`DeviceError::Malformed`]).
    fn poll_quiesce(
        &self,
        qp: QueuePair,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>>;

    /// Makes a completion queue of `capacity` entries.
    fn create_completion_queue(&self, capacity: u32) -> Result<CompletionQueue, DeviceError>;
    /// Makes a shared receive queue.
    fn create_shared_receive_queue(
        &self,
        options: SharedReceiveQueueOptions,
    ) -> Result<SharedReceiveQueue, DeviceError>;
    /// Makes a queue pair, not yet connected.
    fn create_queue_pair(&self, options: QueuePairOptions) -> Result<QueuePair, DeviceError>;
    /// Disconnects if connected, and frees the queue pair and its windows. None of its completions is delivered
    /// afterwards.
    fn destroy_queue_pair(&self, qp: QueuePair) -> Result<(), DeviceError>;

    /// Starts accepting connections at `address`.
    fn listen(&self, address: &str) -> Result<(), DeviceError>;
    /// Starts connecting `qp`; [`ConnectionEvent::Established`] or [`ConnectionEvent::Rejected`] follows.
    fn connect(&self, qp: QueuePair, address: &str, private_data: &[u8])
    -> Result<(), DeviceError>;
    /// Connects `qp` to the peer that asked; [`ConnectionEvent::Established`] follows. Receives should be posted
    /// before.
    fn accept(
        &self,
        request: ConnectionRequest,
        qp: QueuePair,
        private_data: &[u8],
    ) -> Result<(), DeviceError>;
    /// Refuses the peer that asked.
    fn reject(&self, request: ConnectionRequest, reason: &str) -> Result<(), DeviceError>;
    /// Ends the connection; [`ConnectionEvent::Disconnected`] follows on both sides.
    fn disconnect(&self, qp: QueuePair) -> Result<(), DeviceError>;
    /// The next connection event, if there is one.
    fn poll_connection(&self) -> Option<ConnectionEvent>;

    /// Posts a batch with one doorbell, in order. The batch is accepted whole or not at all.
    fn post_send(&self, qp: QueuePair, requests: &[WorkRequest]) -> Result<(), DeviceError>;
    /// Posts receive buffers, in order. The batch is accepted whole or not at all.
    fn post_receive(
        &self,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError>;
    /// Appends up to `limit` completions to `into`, and returns their number. Makes progress for the device.
    fn poll(&self, cq: CompletionQueue, limit: usize, into: &mut Vec<WorkCompletion>) -> usize;

    /// Appends to `into` the `wr_id` of each buffer of a multi-packet queue that has taken its last message, oldest
    /// first, and returns their number. No further message lands in such a buffer; it belongs to its owner until it is
    /// posted again. Makes progress for the device. Other queues return no buffers.
    fn poll_consumed(&self, queue: SharedReceiveQueue, into: &mut Vec<u64>) -> usize {
        let _ = (queue, into);
        0
    }

    /// Appends to `into` the messages of a multi-packet queue without completions that have arrived since the last
    /// call, oldest first. Returns whether these are all messages that have arrived. `false`: the device does not
    /// follow messages, as devices do not by default; or a sender stands still in the middle of one, so that later ones
    /// cannot be named; or this is the first call, and messages before it were not noted. Their reader finds such
    /// messages in memory.
    ///
    /// `waiter` is woken when the next message arrives. Without a waiter, messages do not wake a device at rest. Makes
    /// progress for the device.
    fn poll_appended(
        &self,
        queue: SharedReceiveQueue,
        waiter: Option<&Waker>,
        into: &mut Vec<Appended>,
    ) -> bool {
        let _ = (queue, waiter, into);
        false
    }

    /// Executes READs in the call if the provider can (peer memory is reachable by loads), with the same ordering,
    /// checks and costs as one posted batch of signalled READs. `None`: impossible at this moment; post the READs
    /// instead. `Some(status)`: the first failure, or success. After a failure the queue pair is in the error state and
    /// the destinations hold unspecified bytes.
    fn read_now(&self, qp: QueuePair, reads: &mut [ReadInto<'_>]) -> Option<Status> {
        let _ = (qp, reads);
        None
    }

    /// Posts READs (into own memory) as one batch, the last of them signalled, and polls up to `looks` times for their
    /// end. True: all have succeeded, and no completion is handed out. False: they have not succeeded yet, or one of
    /// them failed; completions with this `wr_id` report the outcome, as if the READs had just been posted. Only with
    /// [`Capabilities::read_soon`].
    fn read_soon(
        &self,
        qp: QueuePair,
        reads: &[(LocalSpan, RemoteAddress)],
        wr_id: u64,
        looks: u32,
    ) -> Result<bool, DeviceError> {
        let _ = (qp, reads, wr_id, looks);
        let device = self.capabilities().name.clone();
        Err(DeviceError::Unsupported {
            device,
            capability: "READs that end in the call",
        })
    }

    /// Executes changes in the call if the provider can (peer memory is reachable by stores), in their order, with the
    /// same ordering and checks as one posted batch. False: impossible at this moment, and nothing was done; post the
    /// changes instead, which reports the reason if they fail.
    fn change_now(&self, qp: QueuePair, changes: &mut [ChangeNow<'_>]) -> bool {
        let _ = (qp, changes);
        false
    }
}
