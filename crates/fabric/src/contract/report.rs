//! Reports promises that the tests of [`contract_tests`](crate::contract_tests) could not check.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::rc::Rc;

use super::{Outcome, World, cases, check};

/// Names the file to which tests that could not run append their name and the reason, for `cargo xtask ci`.
const NOT_RUN_VARIABLE: &str = "STONECAST_NOT_RUN";

/// The body of one test.
pub fn test(name: &str, world: Rc<dyn World>) {
    if let Outcome::NotRun { device, reason } = check(name, world) {
        note(&device, name, reason);
    }
}

/// The body of one test of a provider that this machine may lack.
pub fn test_if_available(provider: &str, name: &str, world: Result<Rc<dyn World>, String>) {
    match world {
        Ok(world) => test(name, world),
        Err(reason) => note(provider, name, &reason),
    }
}

/// Records that a promise could not be checked.
pub fn note(device: &str, name: &str, reason: &str) {
    println!("not run: {name} ({reason})");
    let Some(path) = std::env::var_os(NOT_RUN_VARIABLE) else {
        return;
    };
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .expect("the list of tests not run can be opened");
    let line = format!("contract of {device}: {name}\t{reason}\n");
    // One write, so that the lines of several tests do not mix.
    file.write_all(line.as_bytes())
        .expect("the list of tests not run can be appended to");
}

/// Like [`summarize`], for a provider that this machine may lack.
pub fn summarize_if_available(provider: &str, world: Result<Rc<dyn World>, String>) {
    match world {
        Ok(world) => summarize(world),
        Err(reason) => {
            let text = format!(
                "contract of {provider}: none of {} promises checked ({reason})\n",
                cases().len()
            );
            // A closed stderr must not turn into a broken promise.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

/// Reports on stderr, past the test harness, the number of promises that can be checked on `world`, and the names of
/// the others.
pub fn summarize(world: Rc<dyn World>) {
    let capabilities = world.node(0).device().capabilities().clone();
    let not_run: Vec<_> = cases()
        .iter()
        .filter_map(|case| {
            case.missing(&capabilities, world.can_kill())
                .map(|reason| (case.name, reason))
        })
        .collect();
    let (all, name) = (cases().len(), &capabilities.name);
    let mut text = format!(
        "contract of {name}: {} of {all} promises checked, {} not run\n",
        all - not_run.len(),
        not_run.len()
    );
    for (case, reason) in not_run {
        text += &format!("contract of {name}: not run: {case} ({reason})\n");
    }
    // A closed stderr must not turn into a broken promise.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
