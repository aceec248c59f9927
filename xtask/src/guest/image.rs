//! A built guest: a kernel and a first file system, kept below the target folder under a name that
//! follows from the versions of its content.
//!
//! ```text
//!   target/guest/KEY/vmlinuz
//!   target/guest/KEY/initrd        programs, the libraries that they need, modules, init, functions of jobs
//!   target/guest/KEY/packages      its packages
//! ```
//!
//! A guest is made beside its place and renamed, so an existing guest is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::guest::archive::Archive;
use crate::guest::modules;
use crate::guest::packages::{Apt, Unpacked};
use crate::tools::output_of;

/// The first process of the guest.
const INIT: &str = include_str!("../../guest/init.sh");
/// Functions for the scripts of jobs.
const FUNCTIONS: &str = include_str!("../../guest/functions.sh");
/// Programs and libraries of the packages, without the libraries that they name themselves.
const FILES: &[&str] = &[
    "usr/bin/busybox",
    "usr/bin/ib_read_lat",
    "usr/bin/ibv_devinfo",
    "usr/bin/ip",
    "usr/bin/ndctl",
    "usr/bin/rdma",
    "usr/sbin/mkfs.ext4",
    "usr/sbin/mkfs.xfs",
    "usr/sbin/tc",
    "usr/lib64/ld-linux-x86-64.so.2",
    // Programs of the workspace and libibverbs open these at run time.
    "usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
    "usr/lib/x86_64-linux-gnu/libibverbs.so.1",
    "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
    "usr/lib/x86_64-linux-gnu/libm.so.6",
    "usr/lib/x86_64-linux-gnu/librdmacm.so.1",
    "etc/libibverbs.d/rxe.driver",
    "etc/mke2fs.conf",
];
const LIBRARY_FOLDERS: &[&str] = &["usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"];

/// A guest that can be booted.
pub struct Image {
    /// The kernel.
    pub kernel: PathBuf,
    /// The first file system.
    pub initrd: PathBuf,
}

impl Image {
    /// Returns the newest guest, and builds a missing one below `folder`.
    pub fn newest(folder: &Path) -> Result<Self> {
        let apt = Apt::new(folder.join("apt"))?;
        let resolved = apt.resolve()?;
        let place = folder.join(key(&resolved.files));
        if !place.exists() {
            let unpacked = apt.unpack(&resolved)?;
            let half = folder.join("new");
            let _may_not_exist = fs::remove_dir_all(&half);
            build(&unpacked, &half)?;
            fs::write(half.join("packages"), resolved.files.join("\n") + "\n")
                .context("writing the list of packages")?;
            fs::rename(&half, &place).with_context(|| format!("renaming {}", half.display()))?;
            apt.clean();
        }
        Ok(Self {
            kernel: place.join("vmlinuz"),
            initrd: place.join("initrd"),
        })
    }
}

/// The name of a guest, from all its parts.
fn key(files: &[String]) -> String {
    let mut hasher = DefaultHasher::new();
    (files, INIT, FUNCTIONS, FILES).hash(&mut hasher);
    modules::recipe().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn build(unpacked: &Unpacked, into: &Path) -> Result<()> {
    let tree = into.join("tree");
    for folder in [
        "dev", "etc", "job", "mnt", "proc", "programs", "run", "scratch", "sys", "tmp", "usr/sbin",
    ] {
        let path = tree.join(folder);
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
    }
    for name in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{name}"), tree.join(name))
            .with_context(|| format!("linking {name}"))?;
    }
    copy_with_libraries(&unpacked.root, &tree)?;
    write_program(&tree.join("init"), INIT)?;
    write_program(&tree.join("functions.sh"), FUNCTIONS)?;
    modules::unpack(
        &unpacked.kernel.join("usr/lib/modules"),
        &tree.join("modules"),
    )?;
    let mut archive = Archive::default();
    archive.add_tree(&tree)?;
    fs::write(into.join("initrd"), archive.finish()?).context("writing the guest's file system")?;
    fs::remove_dir_all(&tree).context("removing the sources of the guest's file system")?;
    let boot = unpacked.kernel.join("boot");
    let kernel = fs::read_dir(&boot).with_context(|| format!("reading {}", boot.display()))?;
    let mut names = kernel.filter_map(|entry| Some(entry.ok()?.path()));
    let is_kernel = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    };
    let kernel = names
        .find(is_kernel)
        .context("the kernel's package has no kernel")?;
    fs::copy(&kernel, into.join("vmlinuz"))
        .with_context(|| format!("copying {}", kernel.display()))?;
    Ok(())
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("making {} run", path.display()))
}

/// Copies [`FILES`] from `root` to `tree`, with all libraries that they name, directly or
/// indirectly.
fn copy_with_libraries(root: &Path, tree: &Path) -> Result<()> {
    let mut libraries = BTreeMap::new();
    for folder in LIBRARY_FOLDERS {
        let path = root.join(folder);
        for entry in fs::read_dir(&path).with_context(|| format!("reading {}", path.display()))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            libraries
                .entry(name.clone())
                .or_insert_with(|| format!("{folder}/{name}"));
        }
    }
    let mut waiting: Vec<String> = FILES.iter().map(ToString::to_string).collect();
    let mut done = BTreeSet::new();
    while let Some(file) = waiting.pop() {
        let (from, to) = (root.join(&file), tree.join(&file));
        let folder = to.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        // A link becomes the file to which it leads.
        fs::copy(&from, &to).with_context(|| format!("copying {}", from.display()))?;
        for name in named_libraries(&from)? {
            let library = libraries
                .get(&name)
                .with_context(|| format!("{file} needs {name}, which is in no package"))?;
            if done.insert(library.clone()) {
                waiting.push(library.clone());
            }
        }
    }
    Ok(())
}

/// The libraries that a program or library names.
fn named_libraries(file: &Path) -> Result<Vec<String>> {
    let is_elf = fs::read(file)
        .with_context(|| format!("reading {}", file.display()))?
        .starts_with(b"\x7fELF");
    if !is_elf {
        return Ok(Vec::new());
    }
    let printed = output_of(Command::new("readelf").arg("--dynamic").arg(file))?;
    let needed = printed.lines().filter(|line| line.contains("(NEEDED)"));
    let name = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
    Ok(needed.filter_map(name).collect())
}
