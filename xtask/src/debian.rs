//! What the tests and benchmarks need of the distribution, installed where this user may.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The end-to-end test imports the descriptions of all packages of the distribution; fewer than this are no full list.
const PACKAGES_MIN: usize = 60_000;

/// Makes `apt-cache dumpavail` list the distribution. A machine that cannot is no failure: the test that needs the list
/// says that it was not run.
pub fn ensure_package_lists() {
    let count = packages_listed();
    if count >= PACKAGES_MIN {
        return;
    }
    println!("apt-cache lists {count} packages, the end-to-end test wants {PACKAGES_MIN}");
    apt_get(&["update"]);
}

/// Installs `package` unless `program` is there. Returns whether it is there then.
pub fn ensure_program(program: &str, package: &str) -> bool {
    runs(program)
        || (apt_get(&["update"])
            && apt_get(&["install", "--yes", "--no-install-recommends", package])
            && runs(program))
}

/// Whether the bindings of libibverbs can be built, after an attempt to install what that needs.
pub fn ensure_verbs_toolchain() -> bool {
    let complete = || runs("cmake") && has_libclang();
    complete()
        || (apt_get(&["update"])
            && apt_get(&[
                "install",
                "--yes",
                "--no-install-recommends",
                "cmake",
                "libclang-dev",
            ])
            && complete())
}

/// Looks where the builder of bindings looks: in the folder that its variable names, and where Debian puts the library.
fn has_libclang() -> bool {
    let named = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let llvm = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let llvm = llvm
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm-"))
        .map(|entry| entry.path().join("lib"));
    let folders = named
        .into_iter()
        .chain(llvm)
        .chain(["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"].map(PathBuf::from));
    folders
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .any(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("libclang") && name.to_string_lossy().contains(".so")
        })
}

/// Whether this machine runs Debian: other distributions have other packages and other keys.
pub fn is_debian() -> bool {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    text.lines().any(|line| line == "ID=debian")
}

fn runs(program: &str) -> bool {
    let status = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn packages_listed() -> usize {
    let output = Command::new("apt-cache")
        .arg("dumpavail")
        .stderr(Stdio::null())
        .output();
    output.map_or(0, |output| {
        output
            .stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| line.starts_with(b"Package: "))
            .count()
    })
}

fn apt_get(arguments: &[&str]) -> bool {
    println!("$ apt-get {}", arguments.join(" "));
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status();
    let success = matches!(&status, Ok(status) if status.success());
    if !success {
        println!(
            "apt-get {} did not work; what needs it is not run",
            arguments.join(" ")
        );
    }
    success
}
