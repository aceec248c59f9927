//! Tests of the measurements.

mod costs;
mod peers;
mod rowan;
mod sim_ycsb;
