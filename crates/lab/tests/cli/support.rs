//! The parts that the tests share: the binary, and temporary folders.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const LAB: &str = env!("CARGO_BIN_EXE_stonecast-lab");

/// The output and the exit status of a command.
pub struct Output {
    /// Exit status; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// The results.
    pub stdout: Vec<u8>,
    /// The messages.
    pub stderr: String,
}

impl Output {
    /// The results as text; the command must have succeeded.
    pub fn text(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        std::str::from_utf8(&self.stdout).expect("UTF-8 on stdout")
    }

    /// The results as one JSON object; the command must have succeeded.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).expect("one JSON object on stdout")
    }

    /// Checks that the command failed cleanly with `code`, and returns its message.
    pub fn refusal(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(self.stdout.is_empty());
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        &self.stderr
    }
}

/// Runs the binary to its end, with nothing set in its environment.
pub fn lab<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    let mut command = Command::new(LAB);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STONECAST_") {
            command.env_remove(name);
        }
    }
    let output = command
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in ["panicked", "stack backtrace", "stonecast-lab is broken"] {
        assert!(!stderr.contains(word), "{stderr}");
    }
    Output {
        code: output.status.code(),
        stdout: output.stdout,
        stderr,
    }
}

/// Returns whether a program lies beside the binary.
pub fn is_beside(name: &str) -> bool {
    Path::new(LAB).with_file_name(name).exists()
}

/// A folder in `parent` that is removed when its value is dropped.
pub fn folder(parent: &str) -> TempDir {
    TempDir::with_prefix_in("stonecast-test-", parent).expect("the folder can be written")
}

/// Reports that `name` cannot run on this machine: in the file that `cargo xtask ci` names, which counts the test, or
/// otherwise on stderr.
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
