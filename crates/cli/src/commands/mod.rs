//! The list of commands. Each command has a file or a folder with its flags, its help and its work.

mod backup;
mod batch;
mod bench;
mod cluster;
mod doctor;
mod export;
mod grow;
mod import;
mod key_value;
mod litmus;
mod ls;
mod manual;
mod offline;
mod plan;
mod restore;
mod serve;
mod stat;
mod structures;
mod ycsb;

use clap::Subcommand;

use crate::failure::Failure;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(Box<serve::Serve>),
    Put(key_value::Put),
    Get(key_value::Get),
    Delete(key_value::Delete),
    Batch(batch::Batch),
    Ls(ls::Ls),
    Import(import::Import),
    Export(export::Export),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Grow(grow::Grow),
    Stat(stat::Stat),
    Inspect(offline::Inspect),
    Verify(offline::Verify),
    Plan(Box<plan::Plan>),
    Litmus(Box<litmus::Litmus>),
    Doctor(doctor::Doctor),
    /// Creates a cluster, shows its state, and asks its nodes to take, give away or move copies.
    #[command(subcommand, arg_required_else_help = true)]
    Cluster(cluster::Cluster),
    /// Lists, shows, checks, imports and exports data structures, and promotes and detaches mirrors of them.
    #[command(subcommand, arg_required_else_help = true)]
    Structures(structures::Structures),
    Completions(manual::Completions),
    Man(manual::Man),
    /// Measures a server.
    #[command(subcommand, arg_required_else_help = true)]
    Bench(bench::Bench),
}

impl Command {
    /// Runs the command. `definition` is the command line, for its manual.
    pub fn run(self, definition: fn() -> clap::Command) -> Result<(), Failure> {
        match self {
            Self::Serve(flags) => serve::run(&flags),
            Self::Put(flags) => key_value::put(&flags),
            Self::Get(flags) => key_value::get(&flags),
            Self::Delete(flags) => key_value::delete(&flags),
            Self::Batch(flags) => batch::run(&flags),
            Self::Ls(flags) => ls::run(&flags),
            Self::Import(flags) => import::run(&flags),
            Self::Export(flags) => export::run(&flags),
            Self::Backup(flags) => backup::run(&flags),
            Self::Restore(flags) => restore::run(&flags),
            Self::Grow(flags) => grow::run(&flags),
            Self::Stat(flags) => stat::run(&flags),
            Self::Inspect(flags) => offline::inspect(&flags.pool),
            Self::Verify(flags) => offline::verify(&flags.pool),
            Self::Plan(flags) => plan::run(&flags),
            Self::Litmus(flags) => litmus::run(&flags),
            Self::Doctor(flags) => doctor::run(&flags),
            Self::Cluster(cluster) => cluster.run(),
            Self::Structures(structures) => structures.run(),
            Self::Completions(flags) => manual::completions(&flags, definition()),
            Self::Man(flags) => manual::pages(&flags, definition()),
            Self::Bench(bench) => bench.run(),
        }
    }
}
