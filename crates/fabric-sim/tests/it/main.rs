//! Tests of the simulated world as its users see it.

mod contract;
