//! Lets a test that cannot run here report so, where the test command counts it.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Reports that `name` was not run, and why.
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
