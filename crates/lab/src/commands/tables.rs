//! `tables`: large tables in a pool on a disk.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use stonecast_lab::structures::{Table, TableOptions, measure_table};

use super::compare::program;
use crate::failure::Failure;
use crate::output;

/// Builds a hash table and a B+tree of entries of 8 + 100 bytes, reads them, kills the back-end, and starts it again.
///
/// Each table has a back-end in a process of its own, with a pool in a new folder that is removed at the end. Entries
/// are loaded in the order of their keys, 4,096 at a time into a B+tree, and a million into a hash table. 100 million
/// entries take 22 GB of disk at a time.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a million entries in memory, and a B+tree of 100 million on a disk
  stonecast-lab tables --folder /dev/shm
  stonecast-lab tables --table b-tree --entries 100000000 --folder /srv")]
pub struct Tables {
    /// Number of entries.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    entries: u64,
    /// Only this table.
    #[arg(long, value_enum)]
    table: Option<Kind>,
    /// Folder for the pool [default: the current one].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The losses that entries survive.
    #[arg(long, value_enum, default_value = "process")]
    durability: Losses,
    /// Duration of the look-ups of random keys, before the restart and after it.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seed of the keys that are looked up.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The stonecast binary [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Prints JSON, one line for each table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Entries in no order.
    HashTable,
    /// Entries in the order of their keys.
    BTree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Losses {
    /// The death of every process.
    Process,
    /// The loss of power, too.
    Power,
}

/// Measures the tables that `flags` name.
pub fn run(flags: &Tables) -> Result<(), Failure> {
    let tables = match flags.table {
        None => &[Table::HashTable, Table::BTree][..],
        Some(Kind::HashTable) => &[Table::HashTable],
        Some(Kind::BTree) => &[Table::BTree],
    };
    let options = TableOptions {
        entries: flags.entries,
        duration: Duration::try_from_secs_f64(flags.seconds)?,
        seed: flags.seed,
        program: program(flags.program.as_ref())?,
        folder: match &flags.folder {
            Some(folder) => folder.clone(),
            None => std::env::current_dir()?,
        },
        durability: match flags.durability {
            Losses::Process => "process",
            Losses::Power => "power",
        },
    };
    for table in tables {
        let mut say = |text: &str| output::say(format_args!("{}: {text}", table.name()));
        let figures = measure_table(*table, &options, &mut say)?;
        match flags.json {
            true => output::json(&figures)?,
            false => output::table(&figures.rows())?,
        }
    }
    Ok(())
}
