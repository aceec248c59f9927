//! Verbs between processes of one host over shared memory: the requester's processor does the work of its NIC.
//!
//! ```text
//!   Device (device)    posting, in_call, connecting, registration, revocation, park: the interface for programs
//!     |
//!   QueuePairState     requester: executes posts        responder: takes from the ring
//!     |                   |                                |
//!   Connection         PeerMemory (keys, mappings)      Producer, Consumer (ring), AppendQueue (append)
//!     |                   |                                |
//!   shared memory      KeyTable, regions                area, append queue          bell (doorbell)
//!     |
//!   Control            a thread: handshake, descriptors of regions (grants), deaths of peers
//! ```
//!
//! `docs/design/0003-shared-memory-fabric.md` has the reasons. Invariants:
//! - Data that a peer can write is read once, checked, and then used; nonsense ends that peer's connection and nothing
//!   else.
//! - A requester that changes a peer's memory has announced the change and checked the key afterwards, so a revocation
//!   knows which requesters to wait for (`announcement`).
//! - A peer is gone when the kernel has closed its socket. Only the device's thread closes its end of a socket, when it
//!   is not inside the peer's memory.
//! - Ring, append queue, announcement and doorbell are written against words (`primitive`) that are a mapping in
//!   production and loom's in the model checks: `RUSTFLAGS="--cfg loom" cargo test -p stonecast-fabric-shm --release
//!   --lib loom`.
//!
//! A crash at any instruction leaves memory that the kernel frees with its last mapping, and a socket file that the
//! next server replaces.
#![forbid(unsafe_code)]

mod announcement;
mod append;
mod bell;
mod clock;
mod completion_queue;
mod connecting;
mod connection;
mod control;
mod descriptors;
mod device;
mod doorbell;
mod grants;
#[cfg(all(test, not(loom)))]
mod hostile_tests;
mod in_call;
mod key_table;
mod layout;
mod memory_region;
mod message;
mod options;
mod park;
mod peer_memory;
mod posting;
mod primitive;
#[cfg(all(test, not(loom)))]
mod process_tests;
mod queue_pair;
mod registration;
mod requester;
mod responder;
mod revocation;
mod ring;
mod sends;
mod shared_receive_queue;
mod socket;
mod step;
mod table;
mod time_bound;

pub use device::ShmDevice;
pub use options::{Log, ShmOptions};
pub use socket::knock;
