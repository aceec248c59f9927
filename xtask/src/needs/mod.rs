//! The needs of the steps beside Rust and a C compiler: one table, and one way to install missing
//! needs.
//!
//! ```text
//!   signs    evidence that a need is there                apt    the package manager of Debian
//! ```
//!
//! A system without apt, or a user who may not install, does not fail a step: the step names the
//! tests that it could not run.

pub mod apt;
mod signs;

use std::fmt;

use anyhow::{Result, bail};

use crate::needs::signs::Sign;

/// A need of steps.
pub struct Need {
    /// The name.
    pub name: &'static str,
    sign: Sign,
    /// The package of Debian that satisfies the need; `None` for the lists of packages themselves.
    package: Option<&'static str>,
    /// The steps of `cargo xtask ci`, and the other commands, with this need.
    steps: &'static [&'static str],
}

const fn program(
    name: &'static str,
    package: &'static str,
    steps: &'static [&'static str],
) -> Need {
    Need {
        name,
        sign: Sign::Program(name),
        package: Some(package),
        steps,
    }
}

/// The needs of all steps. Steps that the table does not name need only Rust and a C compiler.
pub const NEEDS: &[Need] = &[
    program("redis-server", "redis-server", &["tests", "bench"]),
    program("etcd", "etcd-server", &["tests", "bench", "end-to-end"]),
    program(
        "redis-benchmark",
        "redis-tools",
        &["tests", "conformance", "end-to-end"],
    ),
    program("redis-cli", "redis-tools", &["conformance"]),
    program("promtool", "prometheus", &["conformance"]),
    program("pkg-config", "pkg-config", &["tests"]),
    program("c++", "g++", &["tests"]),
    program("cmake", "cmake", &["verbs"]),
    // The package of CMake does not bring the program that runs its builds.
    program("make", "make", &["verbs"]),
    Need {
        name: "libclang",
        sign: Sign::Libclang,
        package: Some("libclang-dev"),
        steps: &["verbs"],
    },
    Need {
        name: "libclang's headers",
        sign: Sign::ClangHeaders,
        package: Some("libclang-dev"),
        steps: &["verbs"],
    },
    // Debian splits `python3 -m venv`: the command exists, and fails without this module.
    Need {
        name: "Python's ensurepip",
        sign: Sign::PythonModule("ensurepip"),
        package: Some("python3-venv"),
        steps: &["conformance", "python"],
    },
    program("node", "nodejs", &["conformance"]),
    program("npm", "npm", &["conformance"]),
    program("go", "golang-go", &["conformance"]),
    program("javac", "default-jdk-headless", &["conformance"]),
    program("mvn", "maven", &["conformance"]),
    Need {
        name: "lists of packages",
        sign: Sign::PackageLists,
        package: None,
        steps: &["end-to-end"],
    },
    program("groff", "groff", &["end-to-end"]),
    program("systemd-analyze", "systemd", &["end-to-end"]),
    program("zsh", "zsh", &["end-to-end"]),
    program("fish", "fish", &["end-to-end"]),
    program("qemu-system-x86_64", "qemu-system-x86", &["guest"]),
    program("xz", "xz-utils", &["guest"]),
    program("readelf", "binutils", &["guest"]),
    program("strip", "binutils", &["guest"]),
    program("debootstrap", "debootstrap", &["fresh"]),
    program("setpriv", "util-linux", &["fresh"]),
    program("unshare", "util-linux", &["fresh"]),
];

/// The missing needs of a step.
pub struct Missing(Vec<&'static Need>);

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|need| need.name).collect();
        write!(
            formatter,
            "missing: {}; apt-get could not install it",
            names.join(", ")
        )
    }
}

/// Checks the needs of `step`, and installs missing ones if this user may install packages.
pub fn ensure(step: &str) -> Result<(), Missing> {
    let missing = still_missing(&[step]);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Missing(missing)),
    }
}

/// Prints the needs of the named steps (all, if none is named), after an attempt to install missing ones, if there is
/// to be one (`with_installation`). Returns `false` if a need is missing.
pub fn run(steps: &[String], with_installation: bool) -> Result<bool> {
    let steps: Vec<_> = steps.iter().map(String::as_str).collect();
    let known = |step: &&&str| NEEDS.iter().any(|need| need.steps.contains(*step));
    if let Some(step) = steps.iter().find(|step| !known(step)) {
        bail!("the step {step} does not exist, or needs nothing beside Rust and a C compiler");
    }
    let missing = match with_installation {
        true => still_missing(&steps),
        false => missing(&steps),
    };
    for need in of_steps(&steps) {
        let is_there = missing.iter().all(|missing| missing.name != need.name);
        println!(
            "{:<8} {:<20} {:<21} {}",
            if is_there { "there" } else { "missing" },
            need.name,
            need.package.unwrap_or("(apt-get update)"),
            need.steps.join(", ")
        );
    }
    Ok(missing.is_empty())
}

/// The needs of `steps`; all, if none is named.
fn of_steps(steps: &[&str]) -> impl Iterator<Item = &'static Need> {
    NEEDS
        .iter()
        .filter(move |need| steps.is_empty() || need.steps.iter().any(|step| steps.contains(step)))
}

/// The missing needs of `steps`.
fn missing(steps: &[&str]) -> Vec<&'static Need> {
    of_steps(steps)
        .filter(|need| !need.sign.is_there())
        .collect()
}

/// The needs of `steps` that are missing after apt has installed what it can.
fn still_missing(steps: &[&str]) -> Vec<&'static Need> {
    let mut missing = missing(steps);
    if !missing.is_empty() && apt::update() {
        install(&missing);
        missing.retain(|need| !need.sign.is_there());
    }
    missing
}

/// Installs the packages of `needs`. One command for all takes a third less processor time than a command for each. If
/// one package cannot be installed, apt installs none of a command, so that a command for each follows.
fn install(needs: &[&Need]) {
    let mut packages: Vec<_> = needs.iter().filter_map(|need| need.package).collect();
    packages.dedup();
    if packages.is_empty() || apt::install(&packages) {
        return;
    }
    for package in packages {
        apt::install(&[package]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages_of(step: &str) -> Vec<&str> {
        of_steps(&[step]).filter_map(|need| need.package).collect()
    }

    #[test]
    fn the_bindings_of_libibverbs_need_a_program_that_runs_the_builds_of_cmake() {
        assert_eq!(
            packages_of("verbs"),
            ["cmake", "make", "libclang-dev", "libclang-dev"]
        );
    }

    #[test]
    fn each_client_of_the_conformance_step_is_installed_with_what_debian_splits_off() {
        let packages = packages_of("conformance");
        for package in [
            "python3-venv",
            "golang-go",
            "default-jdk-headless",
            "maven",
            "npm",
        ] {
            assert!(packages.contains(&package), "{package}");
        }
    }

    #[test]
    fn a_step_that_is_not_in_the_table_needs_nothing() {
        assert!(ensure("format").is_ok());
        assert!(
            run(&["format".to_owned()], false).is_err(),
            "a typing error is reported"
        );
    }
}
