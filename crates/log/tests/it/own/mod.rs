//! The history of the records that a node stamped itself.

mod histories;
#[cfg(feature = "mutants")]
mod mutants;
mod node;
mod stories;
