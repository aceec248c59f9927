//! Replication, told as stories.

mod entries;
#[cfg(feature = "mutants")]
mod mutants;
mod stories;
