//! Tests of the simulated world from the view of its users.

mod appends;
mod campaign;
mod contract;
mod document;
mod faults;
mod persistence;
mod places;
mod pool;
mod support;
mod suspension;
mod world;
