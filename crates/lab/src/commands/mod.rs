//! The list of commands. Each has a file or a folder with its flags, its help and its code.

mod compare;
mod figure;
mod remotelog;
mod serve_published;
mod sim;
mod tables;
mod ycsb;

use clap::Subcommand;

use crate::failure::Failure;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Sim(sim::Sim),
    Ycsb(Box<ycsb::Ycsb>),
    Figure(figure::Figure),
    Remotelog(remotelog::Remotelog),
    Compare(compare::Compare),
    Tables(tables::Tables),
    #[command(hide = true)]
    ServePublished(serve_published::ServePublished),
}

impl Command {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Sim(flags) => sim::run(&flags),
            Self::Ycsb(flags) => ycsb::run(&flags),
            Self::Figure(flags) => figure::run(&flags),
            Self::Remotelog(flags) => remotelog::run(&flags),
            Self::Compare(flags) => compare::run(&flags),
            Self::Tables(flags) => tables::run(&flags),
            Self::ServePublished(flags) => serve_published::run(&flags),
        }
    }
}
