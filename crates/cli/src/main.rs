//! The `stonecast` binary: server, client and tools.
//!
//! | file | what |
//! | --- | --- |
//! | `arguments.rs` | the command line as a whole |
//! | `configuration.rs` | flag, environment, file, default: where a setting comes from |
//! | `commands/` | one file or folder for each command: its flags, its help, what it does |
//! | `flags.rs`, `values.rs` | flags that several commands share, values that can be typed |
//! | `doctor/` | facts about this machine, and what follows from them |
//! | `fabric.rs` | the device behind an address |
//! | `session.rs` | a connection to a server, and the loop that drives it |
//! | `ndjson.rs` | the exchange format |
//! | `signals.rs` | the end of a server in good order |
//!
//! Manners: results go to stdout, words for people to stderr. `docs/cli.md` has the table of statuses and what `--json`
//! prints. An error says what was wrong and what to do, and is never a backtrace.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod configuration;
mod doctor;
mod fabric;
mod flags;
mod ndjson;
mod session;
mod signals;
mod values;

use std::process::ExitCode;

use clap::CommandFactory as _;
use stonecast_console::{failure, output, progress};

use arguments::Arguments;

fn main() -> ExitCode {
    stonecast_console::run("stonecast", || {
        Arguments::read()?.command.run(Arguments::command)
    })
}
