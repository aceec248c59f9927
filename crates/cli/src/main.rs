//! The `stonecast` binary: server, client and tools.
//!
//! | file | content |
//! | --- | --- |
//! | `arguments.rs` | the command line as a whole |
//! | `configuration.rs` | the source of a setting: flag, environment, file or default |
//! | `commands/` | one file or folder for each command: its flags, its help, its work |
//! | `flags.rs`, `values.rs` | flags that several commands share, values that can be typed |
//! | `doctor/` | facts about this machine, and the conclusion from them |
//! | `fabric.rs` | the device of an address |
//! | `session.rs` | a connection to a server, and the loop that drives it |
//! | `signals.rs` | the end of a server in order |
//!
//! Results go to stdout, messages for people to stderr. `docs/cli.md` has the table of exit statuses and the output of
//! `--json`. An error names the fault and the remedy, and is never a backtrace.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod configuration;
mod copying;
mod doctor;
mod fabric;
mod flags;
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
