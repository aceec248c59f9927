//! The settings that a bare system gets from its host: access to networks and registries, and trusted certificates. No
//! setting is a program, so no setting can hide that a program is missing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools::run;

/// Files of the system.
const FILES: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"];
/// Files below a user's home that name the registries of cargo, pip, npm, Go and Maven.
const FILES_OF_HOME: &[&str] = &[
    ".cargo/config",
    ".cargo/config.toml",
    ".config/pip/pip.conf",
    ".config/go/env",
    ".npmrc",
    ".m2/settings.xml",
];
/// Environment variables with the same purpose.
const VARIABLES: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "PIP_INDEX_URL",
    "NPM_CONFIG_REGISTRY",
    "GOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
];
/// Downloads of cargo: files that it checked, and its index.
const REGISTRY: &[&str] = &["registry/cache", "registry/index"];
/// Debian's file of all trusted certificates.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----";

/// Copies files, certificates and cargo's downloads into the system at `root`.
pub fn lend(root: &Path) -> Result<()> {
    for file in FILES {
        copy(Path::new(file), &inside(root, file))?;
    }
    let home = PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into()));
    for file in FILES_OF_HOME {
        copy(&home.join(file), &root.join("root").join(file))?;
    }
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    for folder in REGISTRY {
        let (from, to) = (
            cargo_home.join(folder),
            root.join("root/.cargo").join(folder),
        );
        if from.is_dir() {
            fs::create_dir_all(&to).with_context(|| format!("making {}", to.display()))?;
            run(Command::new("cp").arg("-a").arg(from.join(".")).arg(&to))?;
        }
    }
    believe(root)
}

/// `NAME=VALUE` for the variables that are set in this process.
pub fn variables() -> Vec<String> {
    let set = VARIABLES
        .iter()
        .filter_map(|name| Some((name, env::var(name).ok()?)));
    set.map(|(name, value)| format!("{name}={value}")).collect()
}

/// Makes the system at `root` trust the certificates that this system trusts, through the store of the distribution, so
/// that every program there trusts them, whatever store the program reads.
fn believe(root: &Path) -> Result<()> {
    let named = env::var_os("SSL_CERT_FILE").map_or_else(|| CERTIFICATES.into(), PathBuf::from);
    let here = fs::read_to_string(&named).unwrap_or_default();
    let there = fs::read_to_string(inside(root, CERTIFICATES)).unwrap_or_default();
    let folder = root.join("usr/local/share/ca-certificates");
    for (number, certificate) in more_certificates(&here, &there).enumerate() {
        let path = folder.join(format!("lent-{number}.crt"));
        fs::write(&path, certificate).with_context(|| format!("writing {}", path.display()))?;
    }
    run(Command::new("chroot")
        .arg(root)
        .arg("/usr/sbin/update-ca-certificates"))
}

/// The certificates of the bundle `here` that the bundle `there` lacks.
fn more_certificates<'a>(here: &'a str, there: &str) -> impl Iterator<Item = &'a str> {
    let certificates = here.split_inclusive(END_OF_CERTIFICATE).map(str::trim);
    certificates.filter(move |certificate| {
        certificate.ends_with(END_OF_CERTIFICATE) && !there.contains(certificate)
    })
}

/// The path of the absolute path `file` in the system at `root`.
fn inside(root: &Path, file: &str) -> PathBuf {
    root.join(file.trim_start_matches('/'))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_file() {
        return Ok(());
    }
    let folder = to.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_that_are_new_to_the_system_are_lent() {
        let certificate =
            |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n{END_OF_CERTIFICATE}");
        let (one, two) = (certificate("one"), certificate("two"));
        let here = format!("{one}\n{two}\n\n");
        let more: Vec<_> = more_certificates(&here, &format!("{one}\n")).collect();
        assert_eq!(more, [two]);
    }
}
