//! Data structures against their sequential specifications.

pub mod maps;
pub mod sequences;
pub mod store;
