//! Tests of the fabric from the view of its users.

mod decorate;
mod foreign_wakes;
mod loopback;
mod mutants;
mod page;
mod port;
mod suite;
mod wakes;
