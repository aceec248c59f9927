//! Tests of the simulated world as its users see it.

mod contract;
mod document;
mod persistence;
mod pool;
mod support;
mod world;
