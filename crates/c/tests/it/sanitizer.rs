//! The same programs under address sanitizer, with the detection of leaks. The library itself is not instrumented:
//! its memory comes from the allocator that the sanitizer replaces, so that every object of the library is watched.

use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::compiler::{Linked, Place, Program, missing, source, words};
use crate::not_run::not_run;

const FLAGS: &[&str] = &["-fsanitize=address", "-g", "-O1", "-pthread"];

/// Why this machine has no address sanitizer; `None` if it has one.
fn reason() -> Option<&'static String> {
    static REASON: LazyLock<Option<String>> = LazyLock::new(|| {
        if let Some(reason) = missing(&["cc", "pkg-config"]) {
            return Some(reason);
        }
        let probe = Command::new("sh")
            .arg("-c")
            .arg(
                "printf 'int main(void) { return 0; }' | cc -fsanitize=address -x c -o /dev/null -",
            )
            .stderr(Stdio::null())
            .status();
        match probe {
            Ok(status) if status.success() => None,
            _ => Some("the C compiler has no address sanitizer".to_owned()),
        }
    });
    REASON.as_ref()
}

/// Runs `path` under the sanitizer on a server of its own. Returns whether it succeeded, and what it printed.
fn run(path: &str) -> Option<(bool, String)> {
    if let Some(reason) = reason() {
        not_run(&format!("C, under address sanitizer: {path}"), reason);
        return None;
    }
    let place = Place::new();
    let output = Program::c(FLAGS, &source(path), Linked::Shared).run(&[place.url()]);
    Some((output.status.success(), words(&output)))
}

#[test]
fn the_examples_and_the_contract_leak_nothing_and_stay_within_their_memory() {
    for path in [
        "../../examples/c/put_and_get.c",
        "../../examples/c/retry.c",
        "../../examples/c/many.c",
        "tests/c/contract.c",
    ] {
        if let Some((succeeded, printed)) = run(path) {
            assert!(succeeded, "{path}: {printed}");
        }
    }
}

/// Needs the detection of leaks: without it the test above proves nothing.
#[test]
fn a_value_that_is_never_freed_is_noticed() {
    if let Some((succeeded, printed)) = run("tests/c/leak.c") {
        assert!(
            !succeeded && printed.contains("LeakSanitizer: detected memory leaks"),
            "{printed}"
        );
    }
}

/// Needs the memory of the library to be the sanitizer's.
#[test]
fn a_byte_that_is_read_behind_a_value_is_noticed() {
    if let Some((succeeded, printed)) = run("tests/c/overflow.c") {
        assert!(
            !succeeded && printed.contains("heap-buffer-overflow"),
            "{printed}"
        );
    }
}
