//! Stories of nodes that keep copies of shards.

mod campaign;
mod copies;
mod dismissals;
mod failures;
mod full;
mod heirs;
mod joins;
mod losses;
mod many_shards;
mod moves;
#[cfg(feature = "mutants")]
mod mutants;
mod restarts;
mod rests;
mod world;
mod writes;
