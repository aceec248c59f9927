//! Programs of this machine: run, and believed only when they say that they succeeded.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs `command` to its end; what it prints is shown only when it fails.
pub fn run(command: &mut Command) -> Result<()> {
    output_of(command).map(drop)
}

/// What `command` printed to its standard output, as text.
pub fn output_of(command: impl std::borrow::BorrowMut<Command>) -> Result<String> {
    Ok(String::from_utf8_lossy(&bytes_of(command)?).into_owned())
}

/// What `command` printed to its standard output.
pub fn bytes_of(mut command: impl std::borrow::BorrowMut<Command>) -> Result<Vec<u8>> {
    let command = command.borrow_mut();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}
