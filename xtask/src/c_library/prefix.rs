//! The files of the C library below a prefix, as its users find them.
//!
//! ```text
//!   include/stonecast.h
//!   lib/libstonecast.so -> libstonecast.so.0.1 -> libstonecast.so.0.1.0
//!   lib/libstonecast.a
//!   lib/pkgconfig/stonecast.pc, stonecast-static.pc
//! ```
//!
//! The folder can be moved: the files of pkg-config know their places relative to themselves.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};

/// Libraries of the system that the static library needs. The compiler itself adds the one that unwinds.
const SYSTEM_LIBRARIES: &str = "-lpthread -ldl -lm -lrt -lutil";

/// The files of an installation.
pub struct Files<'a> {
    /// The header.
    pub header: &'a Path,
    /// The folder of both libraries, as cargo has built them.
    pub built: &'a Path,
    /// The version of the package.
    pub version: &'a str,
}

/// Installs `files` below `prefix`, in place of the files of an earlier version.
pub fn install(files: &Files<'_>, prefix: &Path) -> Result<()> {
    let libraries = prefix.join("lib");
    let descriptions = libraries.join("pkgconfig");
    for folder in [&prefix.join("include"), &descriptions] {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    copy(files.header, &prefix.join("include/stonecast.h"))?;
    let built = |name| files.built.join(name);
    copy(
        &built("libstonecast_c.a"),
        &libraries.join("libstonecast.a"),
    )?;
    let full = format!("libstonecast.so.{}", files.version);
    copy(&built("libstonecast_c.so"), &libraries.join(&full))?;
    let of_interface = format!("libstonecast.so.{}", interface(files.version));
    link(&full, &libraries.join(&of_interface))?;
    link(&of_interface, &libraries.join("libstonecast.so"))?;
    for (name, content) in [
        ("stonecast.pc", shared(files.version)),
        ("stonecast-static.pc", fixed(files.version)),
    ] {
        let path = descriptions.join(name);
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The part of a version that names the interface; `build.rs` of the library writes it into the library.
fn interface(version: &str) -> &str {
    let parts = if version.starts_with("0.") { 2 } else { 1 };
    let end = version.match_indices('.').nth(parts - 1);
    end.map_or(version, |(at, _)| &version[..at])
}

fn shared(version: &str) -> String {
    let libraries = format!("Libs: -L${{libdir}} -lstonecast\nLibs.private: {SYSTEM_LIBRARIES}");
    description("stonecast", version, &libraries)
}

/// For programs that contain the library. An option `-lstonecast` would find the shared one.
fn fixed(version: &str) -> String {
    let libraries = format!("Libs: ${{libdir}}/libstonecast.a {SYSTEM_LIBRARIES}");
    description("stonecast-static", version, &libraries)
}

fn description(name: &str, version: &str, libraries: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         includedir=${{prefix}}/include\n\
         libdir=${{prefix}}/lib\n\
         \n\
         Name: {name}\n\
         Description: A durable key-value store in remote memory: the client for C\n\
         Version: {version}\n\
         Cflags: -I${{includedir}}\n\
         {libraries}\n"
    )
}

/// Copies a file. A program that uses the old one keeps it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    fs::copy(from, to)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn link(to: &str, at: &Path) -> Result<()> {
    remove(at)?;
    symlink(to, at).with_context(|| format!("making the link {}", at.display()))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}
