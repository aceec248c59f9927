//! A package of Debian. The service is installed and neither enabled nor started: its pool is made with the promise
//! that the operator declares first.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::content::{Content, SHELLS};
use super::{copy, fresh, write};
use crate::tools::{output_of, run};

/// Folders of completions in Debian, in the order of [`SHELLS`].
const COMPLETIONS: [&str; 3] = [
    "usr/share/bash-completion/completions/stonecast",
    "usr/share/zsh/vendor-completions/_stonecast",
    "usr/share/fish/vendor_completions.d/stonecast.fish",
];
/// The user of the unit.
const USER: &str = "u stonecast - \"Stonecast\"\n";
/// Makes the user, and has the manager read the unit. Neither exists in a container.
const AFTER_INSTALLATION: &str = "#!/bin/sh
set -e
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers stonecast.conf
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
";
/// The server ends before its binary goes. The pool stays.
const BEFORE_REMOVAL: &str = "#!/bin/sh
set -e
if [ -d /run/systemd/system ] && [ \"$1\" = remove ]; then
    systemctl disable --now stonecast.service
fi
";

/// Builds the package in `folder`, and returns its path.
pub fn build(content: &Content, version: &str, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("deb");
    fresh(&root)?;
    copy(&content.binary, &root.join("usr/bin/stonecast"))?;
    copy(
        &content.configuration,
        &root.join("etc/stonecast/stonecast.toml"),
    )?;
    copy(
        &content.unit,
        &root.join("usr/lib/systemd/system/stonecast.service"),
    )?;
    write(&root.join("usr/lib/sysusers.d/stonecast.conf"), USER)?;
    for ((_, name), place) in SHELLS.iter().zip(COMPLETIONS) {
        copy(&content.completions.join(name), &root.join(place))?;
    }
    for page in content.pages()? {
        let name = page.file_name().context("a page has a name")?;
        let place = root.join("usr/share/man/man1").join(name);
        copy(&page, &place)?;
        // Without name and time the same page gives the same bytes.
        run(Command::new("gzip").args(["-9n"]).arg(&place))?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let place = root.join("usr/share/doc/stonecast").join(licence);
        copy(&content.licences.join(licence), &place)?;
    }
    let architecture = output_of(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    let control = root.join("DEBIAN");
    write(&control.join("control"), description(version, architecture))?;
    write(
        &control.join("conffiles"),
        "/etc/stonecast/stonecast.toml\n",
    )?;
    for (name, script) in [("postinst", AFTER_INSTALLATION), ("prerm", BEFORE_REMOVAL)] {
        let place = control.join(name);
        write(&place, script)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("making {} executable", place.display()))?;
    }
    let package = folder.join(format!("stonecast_{version}_{architecture}.deb"));
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(&root)
        .arg(&package)
        // The package says when its files were made.
        .env("SOURCE_DATE_EPOCH", "0"))?;
    Ok(package)
}

fn description(version: &str, architecture: &str) -> String {
    format!(
        "Package: stonecast
Version: {version}
Architecture: {architecture}
Maintainer: The Stonecast developers <stonecast@localhost>
Depends: libc6 (>= 2.36), libgcc-s1
Section: database
Priority: optional
Description: durable key-value store in remote memory
 A store whose clients read and write its memory themselves, over shared memory or RDMA, and which acknowledges a write
 once it is durable. Redis clients reach the same keys. Nodes keep copies for each other, and data structures in the
 memory of a server are used as if they were local.
"
    )
}
