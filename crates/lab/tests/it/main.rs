//! Tests of the measurements.

mod costs;
mod peers;
mod sim_ycsb;
