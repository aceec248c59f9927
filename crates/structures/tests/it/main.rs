//! Lock domains under crashes, and data structures against their sequential specifications.

#![forbid(unsafe_code)]

mod domain;
mod golden;
#[path = "../../../log/tests/it/memory.rs"]
mod memory;
#[cfg(feature = "mutants")]
mod mutants;
mod pool;
mod shapes;
