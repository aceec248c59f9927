//! Appends of many senders to one machine with persistent memory, beside WRITEs into a log for each: the primitive of Rowan's
//! evaluation, on its machines, in virtual time.
//!
//! ```text
//!   load.rs     senders and receiver in a world -> Outcome
//!   appends.rs  streams.rs   figures: data and measurement             paper.rs   headlines and page
//! ```

mod appends;
mod load;
mod paper;
mod streams;

pub use load::{Design, Load, Outcome, measure};
pub use paper::PAPER;

/// The number of threads that send, as in the paper.
pub const SENDERS: u32 = 144;
