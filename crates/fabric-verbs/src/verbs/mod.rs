//! A safe layer over libibverbs: each object of the library is a value that frees it and holds its parents.
//!
//! ```text
//!   Context (one open device)          unsolicited events (event)
//!     |-- Port                         addresses, MTU, the GID
//!     |-- ProtectionDomain
//!     |     |-- Registration           memory that the NIC may touch; pinned
//!     |     |-- Window                 a part of it that one queue pair's peer may touch
//!     |     |-- SharedReceiveQueue
//!     |     `-- QueuePair              states, and batches of work requests (posting)
//!     `-- CompletionChannel
//!           `-- CompletionQueue
//! ```
//!
//! Invariants:
//! - An object of the library is freed once, after every object made from it: each value holds its parents.
//! - Nothing here hands out memory: callers name bytes by address and key, and the NIC checks both.
//! - Every access flag is named. Relaxed ordering is never requested: a READ after a WRITE would no longer push the
//!   WRITE, and a word posted after its data could arrive first.
//! - Numbers that the library reports as C enumerations are compared as numbers, and never turned into a Rust `enum`.

pub(crate) mod cause;
pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod event;
pub(crate) mod memory;
pub(crate) mod port;
pub(crate) mod posting;
pub(crate) mod queue_pair;
pub(crate) mod receive_queue;
mod zeroed;

/// The outcome of a library call that reports by its return value (0, or an `errno`).
pub(crate) fn outcome(code: i32) -> std::io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(std::io::Error::from_raw_os_error(code.abs()))
    }
}
