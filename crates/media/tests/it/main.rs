//! Pools in directories, through the interface that servers and tools use.

mod copies;
mod damage;
mod full_medium;
mod growing;
#[path = "../../src/not_run.rs"]
mod not_run;
mod persistent_memory;
mod pool;
mod support;
