//! The lock file of the examples, which are a program outside the workspace, names what the crates depend on.
//!
//! `cargo` mends the lock file of the workspace in every build. Nothing mends the lock file of the examples, and the
//! step that builds the examples comes late.

use std::path::Path;

use anyhow::{Context, Result};

use crate::step::cargo;

const MANIFEST: &str = "examples/stranger/Cargo.toml";
const LOCK: &str = "examples/stranger/Cargo.lock";

/// Says how the lock file is mended, if a build would change it.
pub fn findings(workspace: &Path) -> Result<Option<String>> {
    let arguments = ["metadata", "--locked", "--format-version", "1"];
    let output = cargo(workspace, &arguments)
        .args(["--manifest-path", MANIFEST])
        .output()
        .context("starting cargo metadata")?;
    Ok((!output.status.success()).then(|| {
        let words = String::from_utf8_lossy(&output.stderr);
        // Another cargo that works at the moment comes first: "Blocking waiting for file lock".
        let error = words.lines().find(|line| line.starts_with("error"));
        let reason = error.unwrap_or(&words);
        format!(
            "{LOCK}: {reason}; `cargo metadata --format-version 1 --manifest-path {MANIFEST} >/dev/null` brings it up to date"
        )
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// A workspace of the package `library`, which depends on `other` if the caller says so, and the examples with the
    /// lock file that fits to a library without dependencies.
    fn workspace(folder: &Path, with_dependency: bool) {
        let package = |path: &str, name: &str, rest: &str| {
            let folder = folder.join(path);
            fs::create_dir_all(folder.join("src")).unwrap();
            fs::write(folder.join("src/lib.rs"), "").unwrap();
            let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n{rest}");
            fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        };
        let dependency = match with_dependency {
            true => "[dependencies]\nother = { path = \"../other\" }\n",
            false => "",
        };
        package("library", "library", dependency);
        package("other", "other", "");
        let examples = "[workspace]\n[dependencies]\nlibrary = { path = \"../../library\" }\n";
        package("examples/stranger", "stranger", examples);
        let lock = "version = 4\n\n[[package]]\nname = \"library\"\nversion = \"0.1.0\"\n\n\
                    [[package]]\nname = \"stranger\"\nversion = \"0.1.0\"\ndependencies = [\n \"library\",\n]\n";
        fs::write(folder.join(LOCK), lock).unwrap();
    }

    #[test]
    fn a_lock_file_that_fits_is_no_finding() {
        let folder = tempfile::tempdir().unwrap();
        workspace(folder.path(), false);
        assert_eq!(findings(folder.path()).unwrap(), None);
    }

    /// Needs `--locked`, without which cargo mends the lock file and says nothing.
    #[test]
    fn a_stale_lock_file_is_a_finding_that_names_the_command_which_mends_it() {
        let folder = tempfile::tempdir().unwrap();
        workspace(folder.path(), true);
        let finding = findings(folder.path())
            .unwrap()
            .expect("the lock file is stale");
        assert!(finding.starts_with(LOCK), "{finding}");
        assert!(finding.contains("--locked"), "{finding}");
        assert!(
            finding.contains(&format!("--manifest-path {MANIFEST}")),
            "{finding}"
        );
    }
}
