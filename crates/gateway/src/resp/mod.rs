//! The Redis serialization protocol: requests in, replies out.
//!
//! Requests are flat (an array of byte strings, or one inline line), so reading them needs no recursion. Replies are
//! written in RESP2 or RESP3, as requested with `HELLO`.

#[cfg(test)]
mod fuzz;
mod inline;
mod limits;
mod reply;
mod request;

pub use limits::RequestLimits;
pub use reply::{Protocol, ReplyWriter};
pub use request::{BATCH_ARGUMENTS_MAX, Commands, ProtocolError, RequestParser, decimal};
