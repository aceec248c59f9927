//! Packages that several commands of cargo build alike.
//!
//! Cargo unites the features of the packages that one command names. Two commands that name different packages therefore build
//! most of their common dependencies twice. A step that needs some packages of an earlier step names all packages of that step,
//! and runs its own part.

/// The packages whose tests the step `tests` runs: all but the binaries.
pub const TESTS: &[&str] = &[
    "test",
    "--workspace",
    "--exclude",
    "stonecast-cli",
    "--exclude",
    "stonecast-lab",
    "--locked",
];

/// The release build of both binaries and their tests, for the step `end-to-end`.
pub const PROGRAMS: &[&str] = &[
    "test",
    "--release",
    "--package",
    "stonecast-cli",
    "--package",
    "stonecast-lab",
    "--locked",
];
