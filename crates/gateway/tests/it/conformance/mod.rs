//! Real clients, each in a pinned version that the test itself installs into the target folder, where the next run
//! finds it.
//!
//! The tests need registries and time, so they run only on request: `cargo xtask conformance`, which first installs the
//! languages of the clients. No client needs a newer version of its language than Debian 12 has. A client that cannot
//! be installed is reported as not run, by name.

mod go;
mod java;
mod node;
mod promtool;
mod python;
mod redis_tools;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::support::not_run;

/// The folder with the clients' programs.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// The longest time that a client's program or its installation takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs a program to its end. The error says why the program could not be started, or that it took too long.
fn run(command: &mut Command) -> Result<Output, String> {
    let shown = format!("{command:?}");
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    // The output goes to files, since a pipe without a reader blocks the program.
    let file = |name: &str| {
        std::fs::File::create(directory.path().join(name)).map_err(|error| error.to_string())
    };
    command
        .stdin(Stdio::null())
        .stdout(file("stdout")?)
        .stderr(file("stderr")?);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{shown}: {error}"))?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                // The program may end at this very moment.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "{shown} takes longer than {} seconds",
                    PATIENCE.as_secs()
                ));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let read =
        |name: &str| std::fs::read(directory.path().join(name)).map_err(|error| error.to_string());
    Ok(Output {
        status,
        stdout: read("stdout")?,
        stderr: read("stderr")?,
    })
}

/// Runs a step of an installation. If the step fails, reports `test` as not run and returns false.
fn install(test: &str, command: &mut Command) -> bool {
    let shown = format!("{command:?}");
    let reason = match run(command) {
        Ok(output) if output.status.success() => return true,
        Ok(output) => {
            let words = [output.stderr, output.stdout].concat();
            format!("{shown}: {}", reason_in(&String::from_utf8_lossy(&words)))
        }
        Err(error) => error,
    };
    not_run(test, &reason.replace('\t', " "));
    false
}

/// The line of a failed program's `words` that explains the failure: the first line that contains an error, or else the
/// last line.
fn reason_in(words: &str) -> &str {
    let mut lines = words.lines().filter(|line| !line.trim().is_empty());
    let speaks_of_an_error = |line: &&str| line.to_lowercase().contains("error");
    let error = lines.clone().find(speaks_of_an_error);
    error
        .or_else(|| lines.next_back())
        .unwrap_or("no reason given")
}

/// Returns whether all of `programs` are in `PATH`; otherwise `test` is reported as not run. `cargo xtask conformance`
/// installs the programs.
fn need(test: &str, programs: &[&str]) -> bool {
    let is_there = |program: &str| {
        let mut look = Command::new("sh");
        look.args(["-c", &format!("command -v {program}")]);
        run(&mut look).is_ok_and(|output| output.status.success())
    };
    let missing = programs.iter().find(|program| !is_there(program));
    if let Some(program) = missing {
        not_run(test, &format!("{program} is not installed"));
    }
    missing.is_none()
}

/// Tests of one client share its folder.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Returns a folder for a client's program in the target folder, with the program's files. The `steps` install into the
/// folder once, until a file of the program changes. Returns `None` if the program cannot be installed; `test` is then
/// reported as not run.
fn installed(test: &str, name: &str, steps: impl Fn(&Path) -> Vec<Command>) -> Option<PathBuf> {
    // A test that failed while it installed has left no mark.
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("conformance")
        .join(name);
    let (source, mark) = (programs().join(name), folder.join("installed"));
    let mut paths: Vec<PathBuf> = std::fs::read_dir(source)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let files: Vec<(&Path, Vec<u8>)> = paths
        .iter()
        .map(|path| (path.as_path(), std::fs::read(path).unwrap()))
        .collect();
    let pinned: Vec<u8> = files
        .iter()
        .flat_map(|(_, bytes)| bytes.iter().copied())
        .collect();
    if std::fs::read(&mark).is_ok_and(|bytes| bytes == pinned) {
        return Some(folder);
    }
    // There may be no folder, or an incomplete one.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (path, bytes) in &files {
        std::fs::write(folder.join(path.file_name().unwrap()), bytes).unwrap();
    }
    if !steps(&folder)
        .iter_mut()
        .all(|step| install(test, step.current_dir(&folder)))
    {
        return None;
    }
    std::fs::write(mark, pinned).unwrap();
    Some(folder)
}

/// Runs a client's program, which must succeed, and returns its output.
fn succeed(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let output = run(command).unwrap();
    let (printed, words) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{shown}\n{printed}\n{words}");
    printed.into_owned()
}

#[test]
fn the_reason_of_a_failed_installation_is_the_error_of_its_program() {
    let maven = "[ERROR] no route to the registry\n[ERROR] \n[Help 1] an address\n";
    assert_eq!(reason_in(maven), "[ERROR] no route to the registry");
    assert_eq!(
        reason_in("downloading\npackage slices is not there\n\n"),
        "package slices is not there"
    );
    assert_eq!(reason_in(""), "no reason given");
}
