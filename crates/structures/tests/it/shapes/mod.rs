//! Data structures against their sequential specifications.

pub mod domains;
pub mod maps;
pub mod sequences;
pub mod store;
