//! Packages that several commands of cargo build alike.
//!
//! Cargo unites the features of the packages that one command names. Two commands that name different packages
//! therefore build most of their common dependencies twice. A step that needs some packages of an earlier step names
//! all packages of that step, and runs its own part.

use std::sync::OnceLock;

use crate::needs;

/// The packages whose tests the step `tests` runs, all but the binaries: with places for the seeded bugs, since the
/// step `mutants` hunts with the same executables, and with the feature `verbs` where its tools are there, since the
/// guest needs the tests with it. The release build of the binaries has no such places.
pub fn tests() -> Vec<&'static str> {
    with_verbs(
        TESTS,
        "stonecast-fabric-verbs/verbs,stonecast-persist/verbs,stonecast-kv/verbs",
    )
}

/// The release build of both binaries and their tests, for the steps `simulate`, `end-to-end` and `guest`, with the
/// feature `verbs` where its tools are there: the guest needs the binaries with it. The step `fresh` builds and runs
/// the binary without it.
pub fn programs() -> Vec<&'static str> {
    with_verbs(PROGRAMS, "stonecast-cli/verbs,stonecast-lab/verbs")
}

/// Everything that the step `lint` lints, with the seeded bugs, and with the feature `verbs` where its tools are there.
pub fn linted() -> Vec<&'static str> {
    with_verbs(
        LINTED,
        "stonecast-fabric-verbs/verbs,stonecast-persist/verbs,stonecast-kv/verbs,stonecast/verbs,stonecast-bench/verbs,\
         stonecast-cli/verbs,stonecast-lab/verbs",
    )
}

const LINTED: &[&str] = &[
    "clippy",
    "--workspace",
    "--all-targets",
    "--locked",
    "--features",
    "stonecast-check/mutants",
];

const TESTS: &[&str] = &[
    "test",
    "--workspace",
    "--exclude",
    "stonecast-cli",
    "--exclude",
    "stonecast-lab",
    "--locked",
    "--features",
    "stonecast-backup/mutants,stonecast-check/mutants,stonecast-fabric-shm/mutants,stonecast-fabric-sim/mutants,\
     stonecast-kv/mutants,stonecast-log/mutants,stonecast-member/mutants,stonecast-node/mutants,\
     stonecast-persist/mutants,stonecast-replication/mutants,stonecast-replication-sim/mutants,\
     stonecast-structures/mutants",
];

const PROGRAMS: &[&str] = &[
    "test",
    "--release",
    "--package",
    "stonecast-cli",
    "--package",
    "stonecast-lab",
    "--locked",
];

/// One build with the feature takes half the time of two builds, one with it and one without.
fn with_verbs(arguments: &[&'static str], features: &'static str) -> Vec<&'static str> {
    // A missing tool is looked for, and its installation tried, once in a run.
    static HAS_TOOLS: OnceLock<bool> = OnceLock::new();
    let mut arguments = arguments.to_vec();
    if *HAS_TOOLS.get_or_init(|| needs::ensure("verbs").is_ok()) {
        arguments.extend(["--features", features]);
    }
    arguments
}
