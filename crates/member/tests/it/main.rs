//! Stories of nodes that stay in their cluster.

mod deaths;
mod detection;
mod mishaps;
#[cfg(feature = "mutants")]
mod mutants;
mod processes;
mod reader;
mod refusals;
mod scene;
mod staying;
mod suspension;
