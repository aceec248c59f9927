//! A node that keeps copies of shards, and drives the rules of replication over connections, memory and membership,
//! below any store.
//!
//! ```text
//!   store      stamps, commits its own log, publishes, answers                       trait Store
//!     |  Node::stamp, send, own_batch, persisted_here                  ^  digest, keep, commit, settled, serves, resigned
//!     v                                                                |
//!   turn       look --> settle --> what was found --> letters --> roles --> links --> settled --> commit      one task
//!     rest       between two turns, until the next one has something to do
//!     shard      the role of a shard, one value: absent, joins, copies, takes over, leads
//!     peer       the way to another node: link, entries that wait for credit, streams that it has opened
//!     standstill the time for which a shard waits for its copies
//!     fences     peers that are kept out while a shard takes the entries that they left
//!     join       pages of published records, for a node that comes back with nothing
//!     letter     histories, their confirmations, pages;   post: the sessions that carry them
//! ```
//!
//! All state of a node is borrowed for one step at a time. A node waits only for its own medium, in
//! two places: the settling of found entries, and the commit of the store. Two nodes that lead
//! shards for each other therefore never wait for each other.
//!
//! Invariants:
//! - Entries of a shard go to a copy by a connection by which the copy has said that the streams for them are open.
//! - A history is durable after the entries that it names, and a floor after the records that it settles.
//! - The lease is read after the last report that a write needs.
//!
//! A crash leaves the durable state of log, intake and store. A node that starts ([`Node::start`])
//! makes its copies from that state, and then registers in the cluster.
//!
//! `docs/design/0038-a-node.md` has the decisions.
#![forbid(unsafe_code)]

mod answers;
mod bodies;
mod consent;
mod copies;
mod copying;
mod entering;
mod error;
mod fences;
mod filling;
mod heading;
mod join;
mod joining;
mod leading;
mod leaving;
mod letter;
mod links;
mod lost;
mod node;
mod options;
mod own_commits;
mod peer;
mod placed;
mod post;
mod rest;
mod shard;
mod standstill;
mod start;
mod state;
mod store;
mod turn;

pub use copies::{CopyStatus, Part, copies_of};
pub use error::{NodeError, NotServed};
pub use leading::OwnBatch;
pub use node::{Counts, Filling, Node, ShardStatus};
pub use options::{EarlierWriters, Options, Place};
pub use peer::PeerStatus;
pub use start::Left;
pub use store::{Ended, NotDurable, Page, Store};
