//! Real clients, each in a pinned version that the test itself installs into a temporary folder.
//!
//! They need registries and time, so they run only when asked for: `cargo test --test it -- --ignored conformance`. A
//! client that cannot be installed is reported as not run, by name.

mod go;
mod java;
mod node;
mod python;
mod redis_tools;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::not_run;

/// The folder with the clients' programs.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Longest time that a client's program or its installation takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs a program to its end. An error says why it could not be started, or that it took too long.
fn run(command: &mut Command) -> Result<Output, String> {
    let shown = format!("{command:?}");
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    // Into files, since a pipe that nobody empties holds the program up.
    let file = |name: &str| std::fs::File::create(directory.path().join(name)).map_err(|error| error.to_string());
    command.stdin(Stdio::null()).stdout(file("stdout")?).stderr(file("stderr")?);
    let mut child = command.spawn().map_err(|error| format!("{shown}: {error}"))?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                // It may end at this very moment.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{shown} takes longer than {} seconds", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let read = |name: &str| std::fs::read(directory.path().join(name)).map_err(|error| error.to_string());
    Ok(Output { status, stdout: read("stdout")?, stderr: read("stderr")? })
}

/// Installs something. False: it could not be, and `test` is reported as not run.
fn install(test: &str, command: &mut Command) -> bool {
    let shown = format!("{command:?}");
    let reason = match run(command) {
        Ok(output) if output.status.success() => return true,
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            format!("{shown}: {}", words.lines().last().unwrap_or("no reason given"))
        }
        Err(error) => error,
    };
    not_run(test, &reason.replace('\t', " "));
    false
}

/// Runs a client's program, which must succeed, and returns what it printed.
fn succeed(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let output = run(command).unwrap();
    let (printed, words) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}\n{printed}\n{words}");
    printed.into_owned()
}

/// Copies the files of a client's program into a folder.
fn copy(name: &str, into: &Path) {
    for entry in std::fs::read_dir(programs().join(name)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, into.join(path.file_name().unwrap())).unwrap();
    }
}
