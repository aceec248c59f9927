//! Replication in its world, told as stories.

#[cfg(feature = "mutants")]
mod mutants;
mod promises;
