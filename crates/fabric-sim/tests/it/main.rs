//! Tests of the simulated world as its users see it.

mod appends;
mod campaign;
mod contract;
mod document;
mod faults;
mod persistence;
mod places;
mod pool;
mod support;
mod world;
