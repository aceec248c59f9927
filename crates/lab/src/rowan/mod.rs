//! Rowan's evaluation on its machines, in virtual time: appends of many senders to one machine with persistent memory
//! beside WRITEs into a log for each, and Rowan-KV beside its rivals.
//!
//! ```text
//!   load.rs     senders and receiver in a world -> Outcome    appends.rs  streams.rs  local.rs   figures
//!   cluster.rs  servers and clients in a world
//!   contest.rs  a load on a cluster -> KvOutcome              clients.rs  mixes.rs  copies.rs  batches.rs   figures
//!   clover.rs   the store like Clover in a world              control.rs  others.rs  cleaning.rs   figures
//!   kv.rs       `kv` in a world                               causes.rs  queues.rs  windows.rs   figures
//!   sizes.rs    objects                                       threads.rs  learned.rs  passive.rs  answers.rs   figures
//!   cases.rs    the runs that figures share                   sustained.rs  timelines.rs   figures
//!   paper.rs    headlines and page
//! ```

mod answers;
mod appends;
mod atomics;
mod bars;
mod batches;
mod cases;
mod causes;
mod cleaning;
mod cleaning_threads;
mod clients;
mod clover;
mod cluster;
mod contest;
mod control;
mod copies;
mod kv;
mod learned;
mod load;
mod local;
mod mixes;
mod offered;
mod others;
mod paper;
mod passive;
mod queues;
mod sizes;
mod streams;
mod sustained;
mod threads;
mod timelines;
mod windows;

pub use cluster::ContestantError;
pub use contest::{KvLoad, KvOutcome, Machines, Store, measure as measure_kv};
pub use kv::KvOptions;
pub use load::{Design, Load, Outcome, measure};
pub use paper::PAPER;
pub use sizes::Objects;

/// The number of threads that send, as in the paper.
pub const SENDERS: u32 = 144;
