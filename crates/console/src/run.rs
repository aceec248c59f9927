//! From a command to the exit status of its process.

use std::panic::{self, PanicHookInfo, UnwindSafe};
use std::process::ExitCode;

use crate::failure::Failure;
use crate::output;

/// Runs `command` of `program`: prints its failure, and returns its exit status.
pub fn run(
    program: &'static str,
    command: impl FnOnce() -> Result<(), Failure> + UnwindSafe,
) -> ExitCode {
    panic::set_hook(Box::new(move |info| report_defect(program, info)));
    let json = asks_for_json();
    match panic::catch_unwind(command) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            if matches!(failure, Failure::Because(_)) {
                output::error(&failure);
            }
            if let Some(reason) = failure.reason().filter(|_| json) {
                // A closed stdout has no reader.
                let _ = output::json(reason);
            }
            ExitCode::from(failure.status())
        }
        // The hook has reported the panic.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns whether a program reads the results. The answer is needed before the arguments are parsed, because they may
/// be wrong.
fn asks_for_json() -> bool {
    let flags = std::env::args_os().take_while(|argument| argument != "--");
    flags.into_iter().any(|argument| argument == "--json")
}

/// Reports a broken invariant, in the words of its assertion.
fn report_defect(program: &str, info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("no message");
    let place = info
        .location()
        .map(|location| format!(" ({}:{})", location.file(), location.line()))
        .unwrap_or_default();
    output::error(&format!(
        "{program} is broken, please report this: {message}{place}"
    ));
}
