//! Keeps a node in its cluster: the running half of membership.
//!
//! ```text
//!   member       the handle of a node's store: starts everything, gives events and leases
//!     follow     configuration store --> epoch durable --> in force
//!     keep       rounds, ends of leases; stands for heir and removes the lost, by compare-and-set
//!     link       sessions that this node has with its peers: it asks
//!     answering  sessions that peers have with this node: it grants
//!       agent    decides for all of these: no input, no output, no clock
//!         leads  silence  standing
//!   hello  message  news  mailbox     the messages between nodes
//! ```
//!
//! `stonecast-cluster` has the value and the rules; this crate has the messages and the tasks. The crate knows no
//! store: the store above fences, settles and serves on [events](MemberEvent). Clock, tasks, port and configuration
//! store come from the caller, so the simulated world and real processes run the same code.
//!
//! An idle node wakes three times in the length of a lease, for all peers and groups together, and sleeps in between.
//!
//! `docs/design/0032-membership.md` has the decisions, and `docs/formats/membership.md` has every byte.
#![forbid(unsafe_code)]

mod agent;
mod answering;
mod bell;
mod error;
mod event;
mod follow;
mod hello;
mod keep;
mod leads;
mod link;
mod mailbox;
mod member;
mod message;
mod news;
mod shared;
mod silence;
mod standing;

pub use error::MemberError;
pub use event::MemberEvent;
pub use mailbox::COMPLETIONS_PER_PEER;
pub use member::{Member, Seat};
