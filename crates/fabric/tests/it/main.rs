//! Tests of the fabric as its users see it.

mod decorate;
mod foreign_wakes;
mod loopback;
mod mutants;
mod page;
mod port;
mod suite;
mod wakes;
