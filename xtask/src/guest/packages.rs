//! The packages of the guest: from a newer release of the distribution than most machines run, resolved, fetched and
//! checked by apt itself, with separate lists and a separate cache, and never installed on this machine.
//!
//! ```text
//!   resolve   names of package files with versions     decides whether the cached guest is still the newest
//!   fetch     the files, checked by apt                only when it is not
//!   unpack    one folder for programs, one for the kernel
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::needs::apt::mirror;
use crate::tools::{output_of, run};

/// The first release of Debian whose kernel and rdma-core both know FLUSH and ATOMIC_WRITE.
const RELEASE: &str = "trixie";
/// The package that depends on the newest kernel of the release.
const KERNEL: &str = "linux-image-amd64";
/// Packages whose programs and libraries the guest uses. Their dependencies come with them.
const WANTED: &[&str] = &[
    "busybox-static",
    "e2fsprogs",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "libgcc-s1",
    "librdmacm1t64",
    "ndctl",
    "perftest",
    "xfsprogs",
];
/// The lists of a stable release change rarely.
const LISTS_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Files with the keys of Debian's archive, under the names of the last releases.
const KEYRINGS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// apt with separate lists, cache and package status.
pub struct Apt {
    folder: PathBuf,
}

/// Names of package files, versions included.
pub struct Resolved {
    /// The package of the newest kernel.
    kernel: String,
    /// All package files, in a fixed order.
    pub files: Vec<String>,
}

/// Unpacked packages.
pub struct Unpacked {
    /// Programs and libraries.
    pub root: PathBuf,
    /// The kernel and its modules.
    pub kernel: PathBuf,
}

impl Apt {
    /// An apt whose files lie below `folder`.
    pub fn new(folder: PathBuf) -> Result<Self> {
        for below in ["lists/partial", "cache/archives/partial"] {
            let path = folder.join(below);
            fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        }
        // With an empty list of installed packages apt fetches every dependency, whatever this
        // machine has.
        fs::write(folder.join("status"), "").context("writing an empty package status")?;
        let keyring = KEYRINGS.iter().find(|path| Path::new(path).exists());
        let keyring = keyring.context(
            "this machine has no keyring of Debian's archive (package debian-archive-keyring)",
        )?;
        let sources = format!(
            "Types: deb\nURIs: {}\nSuites: {RELEASE}\nComponents: main\nSigned-By: {keyring}\n",
            mirror()
        );
        fs::write(folder.join("guest.sources"), sources).context("writing the list of sources")?;
        Ok(Self { folder })
    }

    /// The packages of the newest guest.
    pub fn resolve(&self) -> Result<Resolved> {
        let stamp = self.folder.join("updated");
        let age = fs::metadata(&stamp)
            .and_then(|status| status.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age > LISTS_AGE_MAX) {
            run(self.command("apt-get").args(["-qq", "update"]))?;
            fs::write(&stamp, "").context("noting the time of the package lists")?;
        }
        let depends = output_of(self.command("apt-cache").args(["depends", KERNEL]))?;
        let kernel = depends
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
        let kernel = format!(
            "linux-image-{}",
            kernel.with_context(|| format!("{KERNEL} depends on no kernel"))?
        );
        let mut files = file_names(&output_of(self.installing(&["--print-uris"]))?);
        files.extend(file_names(&output_of(self.command("apt-get").args([
            "--print-uris",
            "download",
            &kernel,
        ]))?));
        files.sort();
        ensure!(
            files.len() > WANTED.len(),
            "apt-get names only {} package files",
            files.len()
        );
        Ok(Resolved { kernel, files })
    }

    /// Fetches and unpacks the resolved packages.
    pub fn unpack(&self, resolved: &Resolved) -> Result<Unpacked> {
        println!(
            "fetching {} packages of {RELEASE} for the guest",
            resolved.files.len()
        );
        run(&mut self.installing(&["-qq", "--download-only"]))?;
        let debs = self.folder.join("kernel-package");
        let unpacked = Unpacked {
            root: self.folder.join("root"),
            kernel: self.folder.join("kernel"),
        };
        for folder in [&debs, &unpacked.root, &unpacked.kernel] {
            let _may_not_exist = fs::remove_dir_all(folder);
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        run(self
            .command("apt-get")
            .args(["-qq", "download", &resolved.kernel])
            .current_dir(&debs))?;
        for package in packages_in(&self.folder.join("cache/archives"))? {
            run(Command::new("dpkg-deb")
                .arg("--extract")
                .arg(package)
                .arg(&unpacked.root))?;
        }
        for package in packages_in(&debs)? {
            run(Command::new("dpkg-deb")
                .arg("--extract")
                .arg(package)
                .arg(&unpacked.kernel))?;
        }
        Ok(unpacked)
    }

    /// Removes the files of [`Apt::unpack`] after the guest was made.
    pub fn clean(&self) {
        for folder in ["root", "kernel", "kernel-package", "cache/archives"] {
            // Leftover files only take space.
            let _best_effort = fs::remove_dir_all(self.folder.join(folder));
        }
        let _best_effort = fs::create_dir_all(self.folder.join("cache/archives/partial"));
    }

    fn installing(&self, options: &[&str]) -> Command {
        let mut command = self.command("apt-get");
        command
            .args(options)
            .args(["--yes", "--no-install-recommends", "install"])
            .args(WANTED);
        command
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let at = |name: &str| self.folder.join(name).display().to_string();
        let settings = [
            ("Dir::State::Lists", at("lists")),
            ("Dir::State::status", at("status")),
            ("Dir::Cache", at("cache")),
            ("Dir::Etc::sourcelist", at("guest.sources")),
            ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
            // apt's user for downloads cannot write below this folder.
            ("APT::Sandbox::User", "root".to_owned()),
        ];
        for (name, value) in settings {
            command.arg("-o").arg(format!("{name}={value}"));
        }
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("LC_ALL", "C");
        command
    }
}

/// The second word of lines such as `'http://.../libc6_2.41_amd64.deb' libc6_2.41_amd64.deb 2846580 SHA256:...`.
fn file_names(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter(|line| line.starts_with('\''));
    lines
        .filter_map(|line| line.split_whitespace().nth(1))
        .map(ToOwned::to_owned)
        .collect()
}

fn packages_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    let packages: Vec<_> = paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "deb"))
        .collect();
    if packages.is_empty() {
        bail!("apt-get left no packages in {}", folder.display());
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_files_are_read_from_what_apt_would_fetch() {
        let printed = "Reading package lists...\n\
                       'http://mirror/libc6_2.41-12_amd64.deb' libc6_2.41-12_amd64.deb 2846580 SHA256:0\n\
                       'http://mirror/ndctl_81-1_amd64.deb' ndctl_81-1_amd64.deb 164048 SHA256:1\n";
        assert_eq!(
            file_names(printed),
            ["libc6_2.41-12_amd64.deb", "ndctl_81-1_amd64.deb"]
        );
    }
}
