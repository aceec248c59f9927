//! The `stonecast` binary: server, client, tools and benchmarks.
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
//! | `output.rs`, `progress.rs` | results to stdout, words to stderr |
//! | `signals.rs` | the end of a server in good order |
//! | `failure.rs` | exit status and message |
//!
//! Manners: results go to stdout, words for people to stderr. `docs/cli.md` has the table of statuses and what `--json`
//! prints. An error says what was wrong and what to do, and is never a backtrace.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod configuration;
mod doctor;
mod fabric;
mod failure;
mod flags;
mod ndjson;
mod output;
mod progress;
mod session;
mod signals;
mod values;

use std::panic::{self, PanicHookInfo};
use std::process::ExitCode;

use clap::CommandFactory as _;

use arguments::Arguments;
use failure::Failure;

fn main() -> ExitCode {
    panic::set_hook(Box::new(report_defect));
    let json = arguments::ask_for_json();
    match panic::catch_unwind(|| Arguments::read()?.command.run(Arguments::command)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            if matches!(failure, Failure::Because(_)) {
                output::error(&failure);
            }
            if let Some(reason) = failure.reason().filter(|_| json) {
                // A closed stdout has nobody to tell.
                let _ = output::json(reason);
            }
            ExitCode::from(failure.status())
        }
        // Reported by the hook.
        Err(_) => ExitCode::FAILURE,
    }
}

/// A broken invariant, in the words of its assertion.
fn report_defect(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("no message");
    let place = info
        .location()
        .map(|location| format!(" ({}:{})", location.file(), location.line()))
        .unwrap_or_default();
    output::error(&format!(
        "stonecast is broken, please report this: {message}{place}"
    ));
}
