//! Stories of appends between nodes, on the simulated network.

mod closings;
mod credits;
mod ends;
mod ledgers;
#[cfg(feature = "mutants")]
mod mutants;
mod pipeline;
mod refusals;
mod restarts;
mod segments;
mod world;
