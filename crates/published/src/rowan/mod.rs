//! Rowan-KV as published, and the rivals of its evaluation.
//!
//! ```text
//!   client.rs --requests--> worker.rs --entry--> log.rs      its t-log                 segments.rs   states of segments
//!                                     \--entry--> replication/  the backups            store.rs      what threads share
//!   control.rs   gives the memory of the backups' logs out                             index.rs      indexes in DRAM
//!   digest.rs    enters the entries of other servers into the indexes of the backups   placement.rs  shards
//!   cleaner.rs   moves live entries together                                           entry.rs  message.rs  bytes
//!   node.rs      the threads of a server             serving.rs  caller.rs   both sides of requests
//! ```
//!
//! A key belongs to a shard, a shard has a primary and backups. All requests go to the primary. Rowan-KV and its rivals
//! are one engine: only the way of an entry to the backups differs ([`Replication`]).
//!
//! Source: Q. Wang, Y. Lu, J. Wang, J. Shu, *Replicating Persistent Memory Key-Value Stores with Efficient RDMA
//! Abstraction*, OSDI 2023: its slides, and notes of its text. What these leave open follows the artefact, or is said
//! where it is decided.

pub(crate) mod caller;
mod cleaner;
mod client;
mod control;
mod digest;
mod entry;
mod index;
mod log;
pub(crate) mod message;
mod node;
mod options;
mod placement;
pub(crate) mod replication;
mod segments;
pub(crate) mod serving;
mod store;
mod worker;

pub use client::RowanClient;
pub use node::{RowanServer, Seat, Seats};
pub use options::{Replication, RowanOptions};
pub use placement::Placement;
