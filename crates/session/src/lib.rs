//! The parts of a connection that every store needs before it has stored a byte.
//!
//! ```text
//!   greeting     protocol, version and platform of a peer            both sides, before anything is made
//!   endpoint     a client's queue pair and memory                   undone when dropped
//!   accept       a server's queue pair and memory for one peer      undone unless the peer is accepted
//!   receives     receive buffers by number
//!   listener     a wait for arrivals that continues from poll to poll
//!   requests     unanswered requests by id, and the bytes that they were sent from
//!   answers      memory that answers are sent from, in turn
//!   staging      memory that entries are sent from, each in one piece
//!   lease        memory that one peer may touch, through windows of its own
//!   revocation   the end of leases and connections: nothing is reused before its windows are revoked
//! ```
//!
//! The crate knows no record, no index and no log: a store supplies its messages and decides on the leased objects. The
//! crate has no clock: time comes from the [`Runtime`](stonecast_fabric::Runtime), and
//! [`within`](trait@stonecast_fabric::Runtime) bounds any of its futures.
//!
//! `docs/design/0029-sessions-and-leases.md` has the decisions.
#![forbid(unsafe_code)]

mod accept;
mod answers;
mod endpoint;
mod greeting;
mod lease;
mod listener;
mod queues;
mod receives;
mod requests;
mod revocation;
mod staging;

pub use accept::{Making, accept};
pub use answers::AnswerRing;
pub use endpoint::{ConnectError, Endpoint, close};
pub use greeting::{Greeting, Mismatch, PlatformCode, Protocol, Side};
pub use lease::{Lease, Leases, Lessor, Opening};
pub use listener::Listener;
pub use queues::Queues;
pub use receives::ReceiveBuffers;
pub use requests::{RequestHandle, RequestId, Requests, Unanswered};
pub use revocation::{Ended, Ending, Revocations, Revoked, Unquiesced};
pub use staging::Staging;
