//! The KV store on several nodes.
//!
//! ```text
//!   setup      nodes, shards, clients, faults, drawn from a seed
//!   shelf      what a recovery finds and changes beside the pools
//!   places     pools, epochs and configuration of the nodes, which outlive their processes
//!   subject    a node: joins, serves; a client of the cluster
//!   recovery   the restart of all nodes after a power cut, and a client that looks at everything
//!   contents   what that client found, and its judgement
//!   batches    keys of one shard, changed together
//!   mishaps    deaths, pauses and power cuts of nodes, partitions, requests of operators
//!   drive      one run, and the oracles at its end
//! ```
//!
//! The record of a run goes to these oracles: the history is linearizable, a term has one primary, copies agree,
//! redundancy is restored, clients progress after healing, every crash can be recovered.

mod batches;
mod client;
mod contents;
mod drive;
mod mishaps;
mod places;
mod recovery;
mod setup;
mod shelf;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use drive::run;
pub(crate) use setup::Setup;
