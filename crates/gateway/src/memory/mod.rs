//! Memory of requests and replies, and the bound on what all connections use.
//!
//! ```text
//!   --buffer-size   requests: one half         common                  | for the first in line
//!                   replies:  the other half   every connection alike
//!   beside it       4 KiB each way for every connection, so that small commands are always served; 8 KiB with TLS
//! ```
//!
//! Invariants:
//! - Memory is reserved before it is taken. A connection that finds none reads nothing, and reads no value, until there is some.
//! - Tasks that wait for memory never wait for each other in a circle. Replies wait for their reader alone, which is cut off where it
//!   takes too little. Of requests, the first in line may use a part that no other may, until it is complete.
//! - Blocks come from the system and go back there, so the memory of connections is free when they are gone, whatever the allocator
//!   keeps.
//! - A block that the system does not give ends one connection and nothing else.
//! - An idle connection has no block.

mod account;
mod block;
mod buffer;
mod chain;

pub use account::{Account, Memory};
pub use block::{GUARANTEED, NoBlock, Stock};
pub use buffer::Buffer;
pub use chain::Chain;
