//! Memory of requests and replies, and the bound on the use of all connections.
//!
//! ```text
//!   --buffer-size   requests: one half         common                  | for the first in line
//!                   replies:  the other half   every connection alike
//!   beside it       4 KiB each way for every connection, so that small commands are always served; 8 KiB with TLS
//! ```
//!
//! Invariants:
//! - Memory is reserved before it is taken. A connection without memory reads neither requests nor values until memory
//!   is free.
//! - Tasks that wait for memory never wait for each other in a circle. Replies wait only for their reader, which is cut
//!   off if it reads too little. The first request in line may use a part that no other may, until that request is
//!   complete.
//! - Blocks come from the system and go back to the system, so the memory of connections is free when they are gone:
//!   an allocator would keep it.
//! - If the system does not give a block, one connection ends, and nothing else.
//! - An idle connection has no block.

mod account;
mod block;
mod buffer;
mod chain;

pub use account::{Account, Memory};
pub use block::{GUARANTEED, NoBlock, Stock};
pub use buffer::Buffer;
pub use chain::Chain;
