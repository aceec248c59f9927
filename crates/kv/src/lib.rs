//! The client-direct key-value store. Clients read index and log with one-sided operations and write records to their
//! final place. The server decides, makes records durable, and publishes them.
//!
//! ```text
//!   Client --READ------------------> index (volatile)     Server: decide, stamp, persist, publish
//!          --READ------------------> log (durable)           ^
//!          --WRITE_WITH_IMM--------> leased extent of log ---+
//! ```
//!
//! `docs/design/0001` (the log is the database) and `docs/design/0004` (round trips) give the reasons for this design.
//!
//! Invariants:
//! - A word of the index points to a record that is whole, stamped and durable (visible implies durable).
//! - An answer that says *done* follows the publication, and needs a `Persisted`.
//! - A client writes only into its own lease, above every published record of the extent.
#![forbid(unsafe_code)]

mod cleaning;
mod client;
mod cluster;
mod copies;
mod copying;
mod error;
mod index;
mod metrics;
mod server;
mod stat;
mod wire;

pub use cleaning::Cleaning;
pub use client::{
    Applied, Batch, CLIENT_COMPLETIONS, Client, ClientOptions, Entries, Entry, FoundKey, HeldPart,
    Hold, Observer, Pair, PutRules, Token, Values, Written, Yardstick,
};
pub use cluster::{
    ClusterClient, ClusterEntries, ClusterError, ClusterGet, ClusterOptions, Copies, Dial, Found,
};
pub use copies::{CopyOfShard, CopyPart};
pub use copying::Copying;
pub use error::{Effect, Refusal, StoreError};
pub use metrics::{
    ClientPath, LATENCY_BUCKETS, Latencies, Metrics, PathMetrics, SAMPLE, latency_bound,
    latency_bucket,
};
pub use server::{
    ClientPolicy, Closing, MissingChunk, NodeOptions, Offers, Places, RecoveryReport, Server,
    ServerOptions, Verification, verify,
};
pub use stat::Stat;
pub use stonecast_log::{Condition, Expiry, LedgerFull, NoMoment};
pub use wire::Expectation;
pub use wire::limits;
