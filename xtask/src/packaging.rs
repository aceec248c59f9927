//! The content of a package, in `target/packaging`: binary, manual, completions, unit, example
//! configuration.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::metadata::Metadata;
use crate::step::cargo;

/// Completions: the shell, and the file name that it expects.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash/stonecast"),
    ("zsh", "zsh/_stonecast"),
    ("fish", "fish/stonecast.fish"),
];
/// Files that are the same on every machine, in `packaging`.
const FILES: [&str; 2] = ["stonecast.toml", "systemd/stonecast.service"];

/// Builds the content.
pub fn run() -> Result<bool> {
    let metadata = Metadata::of_the_workspace()?;
    let built = cargo(
        &metadata.workspace_root,
        &[
            "build",
            "--profile",
            "dist",
            "--locked",
            "--package",
            "stonecast-cli",
        ],
    )
    .status()?;
    ensure!(built.success(), "the binary does not build");
    let program = metadata.target_directory.join("dist/stonecast");
    let folder = metadata.target_directory.join("packaging");
    let place = |name: &str| -> Result<_> {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder"))
            .with_context(|| format!("making {}", path.display()))?;
        Ok(path)
    };
    let binary = place("bin/stonecast")?;
    fs::copy(&program, &binary).with_context(|| format!("copying {}", program.display()))?;
    for name in FILES {
        let source = metadata.workspace_root.join("packaging").join(name);
        fs::copy(&source, place(name)?).with_context(|| format!("copying {}", source.display()))?;
    }
    for (shell, name) in SHELLS {
        print_into(
            &program,
            &["completions", shell],
            &place(&format!("completions/{name}"))?,
        )?;
    }
    let manual = folder.join("man1");
    let made = Command::new(&program).arg("man").arg(&manual).status()?;
    ensure!(made.success(), "the manual cannot be written");
    println!("{}", folder.display());
    Ok(true)
}

/// Stores the output of a command in a file.
fn print_into(program: &Path, arguments: &[&str], path: &Path) -> Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        output.status.success(),
        "{arguments:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::write(path, output.stdout).with_context(|| format!("writing {}", path.display()))
}
