//! Verbs between machines: the fabric over libibverbs, and the control plane that connects its queue pairs.
//!
//! ```text
//!   VerbsDevice (device)      what a program asks for            only with the feature `verbs`
//!     |         \
//!   verbs        \            a safe layer over libibverbs       only with the feature `verbs`
//!                 \
//!   control        thread: TCP, mutual authentication, tickets, leases, heartbeats
//! ```
//!
//! `docs/design/0010-verbs-between-machines.md` has the reasons, `docs/rdma.md` tells how to run it. Without the feature
//! `verbs` the crate holds the control plane alone, which needs no RDMA device and no C toolchain.
//!
//! Invariants:
//! - Before a peer has shown that it holds the key that both were given, it learns neither a queue pair number nor a key
//!   nor an address, and nothing that it says is used.
//! - A dead peer is found by its lease, not by the retries of the transport.

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
