//! Memory of requests and replies, and the bound on what all connections use.
//!
//! ```text
//!   --buffer-size   requests: one half         common                  | for the first in line
//!                   replies:  the other half   every connection alike
//!   beside it       4 KiB for each connection that has little, so that small commands are always served
//! ```
//!
//! Invariants:
//! - Memory is reserved before it is taken. A connection that finds none reads nothing, and reads no value, until there is some.
//! - No circle of tasks waits for memory: replies depend on their reader alone, who is cut off if nothing is taken; of requests the
//!   first in line may use a part that nobody else may, until its request is complete.
//! - Blocks come from the system and go back there, so that what connections used is free when they are gone, whatever the allocator
//!   keeps.
//! - An idle connection has no block.

mod account;
mod block;
mod buffer;
mod chain;

pub use account::{Account, Memory};
pub use block::{NoBlock, Stock};
pub use buffer::Buffer;
pub use chain::Chain;

/// Bytes that a connection may hold each way without a reservation.
pub const GUARANTEED: usize = 4 << 10;
