//! Tests of the simulated world as its users see it.

mod contract;
mod persistence;
mod pool;
mod support;
mod world;
