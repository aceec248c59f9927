//! Support for the tests: processes, places for pools, and the report of tests that cannot run on this machine.

mod corpus;
mod place;
mod process;
mod resp;
mod worker;

pub use corpus::{debian_descriptions, debian_packages, entry_line, field_of, generated_packages};
pub use place::{Mount, Place};
pub use process::{Output, Server, command, run, stonecast};
pub use resp::{Reply, RespClient, http_get};
pub use worker::{Worker, as_worker, start_worker};

use std::fs::OpenOptions;
use std::io::Write;

/// Reports that `name` cannot run on this machine: on stderr, and in the file that `cargo xtask ci` names, if any, so
/// that the test is counted.
pub fn not_run(name: &str, reason: &str) {
    eprintln!("not run: {name} ({reason})");
    if let Some(path) = std::env::var_os("STONECAST_NOT_RUN") {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .expect("the file of tests not run opens");
        writeln!(file, "{name}\t{reason}").expect("the file of tests not run takes a line");
    }
}
