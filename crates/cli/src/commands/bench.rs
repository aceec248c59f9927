//! `bench`: the list of measurements.

use clap::Subcommand;

use super::{figure, remotelog, serve_published, ycsb};
use crate::failure::Failure;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    Ycsb(Box<ycsb::Ycsb>),
    Remotelog(remotelog::Remotelog),
    Figure(figure::Figure),
    #[command(hide = true)]
    ServePublished(serve_published::ServePublished),
}

impl Bench {
    /// Measures it.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Ycsb(flags) => ycsb::run(&flags),
            Self::Remotelog(flags) => remotelog::run(&flags),
            Self::Figure(flags) => figure::run(&flags),
            Self::ServePublished(flags) => serve_published::run(&flags),
        }
    }
}
