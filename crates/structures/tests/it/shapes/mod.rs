//! Data structures against their sequential specifications.

mod at_hand;
pub mod domains;
mod in_call;
pub mod maps;
pub mod sequences;
pub mod store;
