//! Tests of the measurements against what they measure.

mod costs;
mod peers;
mod sim_ycsb;
