//! Reports that this machine cannot run a test. Unit tests and the tests in `tests/` use this module.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Reports that `test` was not run, and the reason: to people, and to the list from which `cargo xtask ci` counts.
pub(crate) fn not_run(test: &str, reason: &str) {
    eprintln!("not run: {test} ({reason})");
    if let Some(path) = std::env::var_os("STONECAST_NOT_RUN") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        // A single write, so that the lines of several tests do not mix.
        let line = format!("{test}\t{reason}\n");
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of tests not run can be written");
    }
}
