//! The work of a step: runs a command of cargo in the workspace, shows the output, and counts the tests in the output.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::tally::{NOT_RUN_VARIABLE, NotRunFile, Outcome, counts_of};

/// The cargo that runs this program, in the workspace.
///
/// The command does not inherit the variables that describe the package of this program. Build scripts of dependencies
/// are executed again when such a variable changes, so a user's own command would build TLS and everything above again.
pub fn cargo(workspace: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(workspace);
    for (name, _) in env::vars_os().filter(|(name, _)| describes_a_package(name)) {
        command.env_remove(name);
    }
    command
}

fn describes_a_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_")
}

/// Runs a command and reports whether it succeeds.
pub fn check(mut command: Command) -> Result<Outcome> {
    show(&command);
    let status = command
        .status()
        .with_context(|| format!("starting {command:?}"))?;
    Ok(Outcome::of_check(status.success()))
}

/// Runs a command of cargo that runs test binaries.
pub fn tests(mut command: Command, not_run: &NotRunFile) -> Result<Outcome> {
    show(&command);
    command.env(NOT_RUN_VARIABLE, not_run.path());
    counted(command, not_run)
}

/// Runs a command whose output may contain the closing lines of test binaries, and whose tests
/// append to `not_run`.
pub fn counted(mut command: Command, not_run: &NotRunFile) -> Result<Outcome> {
    command.stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let output = child.stdout.take().expect("stdout is a pipe");
    let (mut passed, mut failed) = (0, 0);
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("reading the output of the tests")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some(counts) = counts_of(&line) {
            passed += counts.0;
            failed += counts.1;
        }
    }
    let status = child.wait().context("waiting for the tests")?;
    Ok(Outcome::of_tests(
        status.success(),
        (passed, failed),
        not_run.take()?,
    ))
}

fn show(command: &Command) {
    let words = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let variables: String = variables
        .map(|(name, value)| format!("{}='{}' ", name.to_string_lossy(), value.to_string_lossy()))
        .collect();
    println!("$ {variables}cargo {}", words.join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_cargo_does_not_inherit_the_package_of_the_program_that_starts_it() {
        assert!(
            env::var_os("CARGO_PKG_NAME").is_some(),
            "cargo runs this test"
        );
        let command = cargo(Path::new("."), &["build"]);
        let removed = |name: &str| {
            command
                .get_envs()
                .any(|(variable, value)| variable == name && value.is_none())
        };
        assert!(removed("CARGO_PKG_NAME") && removed("CARGO_MANIFEST_DIR"));
        assert!(!removed("CARGO_HOME") && !removed("PATH"));
    }
}
