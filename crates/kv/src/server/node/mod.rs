//! This server as a node of a cluster: the store under the rules of copies.
//!
//! ```text
//!   pipeline   decide -> stamp -> send ─┬─ own persist ─┬─ in flight: the next batch goes on -> answer
//!                                       └─ appends ─────┘         ^ settled: publish, in the step in which the node settles
//!
//!   node       entries that are on all copies -> digest -> commit: durable ── the server's task: in the index, piece by piece
//!              history -> keep -> commit                   pages of a join -> absorb -> commit
//!              serves -> commit, ledger -> the shard opens to clients          resigned -> it is closed, at once
//! ```
//!
//! | file | holds |
//! | --- | --- |
//! | `state.rs` | the state that only a node has |
//! | `store.rs` | [`NodeStore`](store::NodeStore): the calls that a node makes |
//! | `calls.rs` | the calls of batches that wait for copies |
//! | `elsewhere.rs`, `digest.rs` | records of other nodes on their way into log and index; their steps |
//! | `pages.rs` | pages of published records, for the store of a joiner |
//! | `leading.rs` | the part of a batch that a node has a say in |
//! | `start.rs` | a pool's content as a node finds it, and the node's start |
//!
//! The node calls the store while no component is borrowed, and the pipeline calls the node in the same way, so neither
//! waits for the other.
//!
//! Invariants:
//! - A word names a record that is durable here. A word of an own record is stored when the record is on all copies.
//! - A shard opens to clients when the ledger that has its term is durable, and everything that was digested is in the
//!   index.
//! - A batch, a commit of the node and a step of the cleaner persist in turns.
//!
//! A crash leaves the log and the newest ledger: records of other nodes that were durable, own records, and the
//! histories that say which of them count.

mod calls;
pub(super) mod counts;
pub(super) mod digest;
mod elsewhere;
pub(super) mod leading;
mod pages;
pub(super) mod start;
pub(super) mod state;
pub(super) mod store;

pub use start::NodeOptions;
