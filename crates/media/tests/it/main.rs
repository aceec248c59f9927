//! Pools in directories, through the interface that servers and tools use.

mod damage;
mod full_medium;
mod pool;
mod support;
