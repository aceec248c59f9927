//! The report of a test that cannot run on this machine, for the test command to count.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Reports that `name` was not run, with the reason.
pub fn not_run(name: &str, reason: &str) {
    println!("not run: {name} ({reason})");
    if let Some(path) = std::env::var_os("STONECAST_NOT_RUN") {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        writeln!(file, "{name}\t{reason}").unwrap();
    }
}
