//! Runs programs of this machine, and trusts their output only if they succeeded.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs `command` to its end; its output is shown only when it fails.
pub fn run(command: &mut Command) -> Result<()> {
    output_of(command).map(drop)
}

/// The standard output of `command`, as text.
pub fn output_of(command: impl std::borrow::BorrowMut<Command>) -> Result<String> {
    Ok(String::from_utf8_lossy(&bytes_of(command)?).into_owned())
}

/// The standard output of `command`.
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
