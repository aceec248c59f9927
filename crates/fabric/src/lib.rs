//! The vocabulary of verbs, one trait that every provider implements, and an asynchronous interface for straight-line
//! protocol code.
//!
//! ```text
//!   kv, log shipping, ...      let status = port.submit(qp, &[write, flush]).await;
//!         |
//!   Port        pairs completions with the futures that wait for them
//!         |
//!   dyn Device  post, poll, connection events            <- fabric-sim, fabric-shm, fabric-verbs
//! ```
//!
//! Ordering and completion follow the reliable connection of the InfiniBand specification (see [`Device`] for the list
//! that the contract suite checks). *Completed* means that the responder has the operation; it never means *persisted*.
#![forbid(unsafe_code)]

pub mod append;
mod bell;
mod boot_time;
mod connection;
#[cfg(feature = "contract")]
pub mod contract;
pub mod decorate;
mod device;
mod executor;
mod handles;
mod port;
mod runtime;
mod solitude;
mod turnstile;
mod work;

pub use bell::Bell;
pub use boot_time::boot_time;
pub use connection::{ConnectionEvent, ConnectionRequest, DisconnectCause, PeerIdentity};
pub use device::{
    Capabilities, ChangeNow, Device, DeviceError, MultiPacketOptions, Placing, QueuePairOptions,
    ReadInto, ReceiveQueue, SharedReceiveQueueOptions,
};
pub use executor::{BusyPoll, Park};
pub use handles::{Access, CompletionQueue, MemoryRegion, QueuePair, Rkey, SharedReceiveQueue};
pub use port::{Inbox, Port, Received, Soon};
pub use runtime::{Boxed, Elapsed, Runtime, Selected, Sleep, Timer, give_way, select};
pub use turnstile::{Turnstile, Within};
pub use work::{
    Appended, Fenceable, FlushPlacement, LocalSpan, Opcode, Operation, Placement, ReceiveRequest,
    RemoteAddress, Status, WorkCompletion, WorkRequest,
};
