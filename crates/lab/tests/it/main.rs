//! Tests of the measurements.

mod applications;
mod asymnvm;
mod costs;
mod documented;
mod failover;
mod nodes;
mod peers;
mod rowan;
mod sim_ycsb;
