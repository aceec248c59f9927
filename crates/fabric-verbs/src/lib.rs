//! Verbs between machines: the fabric over libibverbs, and the control plane that connects its queue pairs.
//!
//! ```text
//!   VerbsDevice (device)      the interface for programs      only with the feature `verbs`
//!     |         \
//!   verbs        \            a safe layer over libibverbs       only with the feature `verbs`
//!                 \
//!   control        thread: TCP, mutual authentication, tickets, leases, heartbeats
//! ```
//!
//! `docs/design/0010-verbs-between-machines.md` has the reasons, and `docs/rdma.md` explains the operation. Without the
//! feature `verbs` the crate holds only the control plane, which needs no RDMA device and no C toolchain.
//!
//! Invariants:
//! - Before a peer has proven that it holds the shared key, it learns neither a queue pair number nor a key nor an
//!   address, and its messages are not used.
//! - A dead peer is detected by its lease, not by the retries of the transport.

mod address;
pub mod control;
#[cfg(feature = "verbs")]
mod device;
mod path;
#[cfg(any(feature = "verbs", test))]
mod retries;
#[cfg(feature = "verbs")]
mod verbs;

pub use address::ControlAddress;
#[cfg(feature = "verbs")]
pub use device::{Abilities, VerbsDevice, VerbsOptions};
pub use path::{Endpoint, Gid, Transport};
