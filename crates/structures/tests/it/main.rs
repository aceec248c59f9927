//! Lock domains under crashes, and data structures against their sequential specifications.

#![forbid(unsafe_code)]

mod damage;
mod domain;
mod flaws;
mod golden;
#[path = "../../../log/tests/it/memory.rs"]
mod memory;
mod mirrors;
#[cfg(feature = "mutants")]
mod mutants;
mod pool;
mod providers;
mod sessions;
mod shapes;
mod staleness;
#[allow(dead_code, reason = "these tests use a part")]
#[path = "../../../session/tests/it/world.rs"]
mod world;
