//! The client for asyncio: futures of a loop, which the loop's own thread resolves.
//!
//! ```text
//!   the loop's thread                                   the driver's thread
//!     start: poll once, job -> queue  ------------------> runs the job
//!     waits in its selector                                 |
//!       eventfd is readable  <--- number -> ready, write <--'  wakes; no lock of the interpreter
//!     drain: polls what is ready, resolves futures
//! ```
//!
//! Only the first number of an empty list writes to the event, so one wake-up of the loop brings all results that are
//! there.

mod bridge;
mod client;

pub use bridge::Bridge;
pub use client::{AsyncClient, AsyncEntries};
