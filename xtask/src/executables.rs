//! Test executables, built and not run by cargo: cargo would run one after the other.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// A test executable, and the folder of its package, in which cargo runs tests.
#[derive(Debug, PartialEq, Eq)]
pub struct Executable {
    /// The name of the test, or of the library.
    pub name: String,
    pub path: PathBuf,
    folder: PathBuf,
}

impl Executable {
    /// The command that runs the executable as cargo does.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder);
        command
    }
}

/// A message of cargo about a crate that was built. Other messages have no such fields.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Has `command`, which is a `cargo test`, build its tests and run none. Returns the executables.
pub fn build_tests(command: &mut Command) -> Result<Vec<Executable>> {
    let built = command
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("building tests")?;
    ensure!(built.status.success(), "the tests do not build");
    let text = String::from_utf8(built.stdout).context("the messages of cargo")?;
    let executables = text.lines().map(executable_in);
    executables.filter_map(Result::transpose).collect()
}

fn executable_in(line: &str) -> Result<Option<Executable>> {
    let message: Message =
        serde_json::from_str(line).with_context(|| format!("a message of cargo: {line}"))?;
    let (Some(target), Some(path)) = (message.target, message.executable) else {
        return Ok(None);
    };
    let manifest = message
        .manifest_path
        .context("an executable of no package")?;
    let folder = manifest.parent().context("a package without a folder")?;
    Ok(Some(Executable {
        name: target.name,
        path,
        folder: folder.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_executables_are_read_and_others_are_passed_over() {
        let built = r#"{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","target":{"name":"it"},"executable":"/t/it-1"}"#;
        let library = r#"{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","target":{"name":"a"},"executable":null}"#;
        let ended = r#"{"reason":"build-finished","success":true}"#;
        let executable = Executable {
            name: "it".to_owned(),
            path: "/t/it-1".into(),
            folder: "/a".into(),
        };
        assert_eq!(executable_in(built).unwrap(), Some(executable));
        assert_eq!(executable_in(library).unwrap(), None);
        assert_eq!(executable_in(ended).unwrap(), None);
        assert!(executable_in("error").is_err());
    }
}
