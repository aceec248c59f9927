//! `bench`: the list of measurements.

use clap::Subcommand;

use super::ycsb;
use crate::failure::Failure;

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum Bench {
    Ycsb(Box<ycsb::Ycsb>),
}

impl Bench {
    /// Runs the measurement.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Ycsb(flags) => ycsb::run(&flags),
        }
    }
}
