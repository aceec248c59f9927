//! Evidence that a need is satisfied: the files that its users look for, not the package with these files.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The least number of packages in a full list. The end-to-end test imports the descriptions of all packages of the
/// distribution.
const PACKAGES_MIN: usize = 60_000;
/// Bytes at the start of a program or library.
const ELF: [u8; 4] = *b"\x7fELF";

/// The sign of a need.
pub enum Sign {
    /// A program of this name in a folder of `PATH`.
    Program(&'static str),
    /// A module that Python can import.
    PythonModule(&'static str),
    /// The library that the builder of bindings loads.
    Libclang,
    /// The headers of libclang's compiler, which another package brings.
    ClangHeaders,
    /// `apt-cache` lists the distribution.
    PackageLists,
}

impl Sign {
    /// Returns whether the sign is present.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => is_program(name),
            Self::PythonModule(name) => {
                output_of("python3", &["-c", &format!("import {name}")]).is_some()
            }
            Self::Libclang => libclang_folders(env::var_os("LIBCLANG_PATH").as_deref())
                .iter()
                .any(|folder| holds_libclang(folder)),
            // bindgen asks an installed `clang`, and accepts a user's setting.
            Self::ClangHeaders => {
                is_program("clang")
                    || env::var_os("BINDGEN_EXTRA_CLANG_ARGS").is_some()
                    || libclang_folders(env::var_os("LIBCLANG_PATH").as_deref())
                        .iter()
                        .any(|folder| holds_clang_headers(folder))
            }
            Self::PackageLists => {
                let listed = output_of("apt-cache", &["dumpavail"]).unwrap_or_default();
                let packages = listed.split(|byte| *byte == b'\n');
                packages
                    .filter(|line| line.starts_with(b"Package: "))
                    .count()
                    >= PACKAGES_MIN
            }
        }
    }
}

/// The output of a program; `None` if it does not exist or failed.
fn output_of(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout)
}

fn is_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| holds_program(&folder, name))
}

fn holds_program(folder: &Path, name: &str) -> bool {
    fs::metadata(folder.join(name))
        .is_ok_and(|status| status.is_file() && status.permissions().mode() & 0o111 != 0)
}

/// The folders in which the builder of bindings looks for libclang. If its variable is set (`named`), the builder looks
/// nowhere else.
fn libclang_folders(named: Option<&OsStr>) -> Vec<PathBuf> {
    if let Some(named) = named {
        let named = PathBuf::from(named);
        // The variable may name the library itself.
        return match named.is_file() {
            true => named.parent().map(Path::to_path_buf).into_iter().collect(),
            false => vec![named],
        };
    }
    let prefix = output_of("llvm-config", &["--prefix"])
        .map(|printed| PathBuf::from(String::from_utf8_lossy(&printed).trim_end()));
    let mut folders: Vec<_> = prefix
        .iter()
        .flat_map(|prefix| ["lib", "lib64"].map(|name| prefix.join(name)))
        .collect();
    let libraries = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(env::split_paths(&libraries));
    for root in ["/usr/local", "/usr"] {
        let mut level: Vec<_> = folders_in(Path::new(root))
            .filter(|folder| {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("lib") || name.starts_with("llvm")
            })
            .collect();
        for _ in 0..3 {
            folders.extend(level.iter().cloned());
            level = level.iter().flat_map(|folder| folders_in(folder)).collect();
        }
    }
    folders
}

fn folders_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
}

/// Returns whether libclang itself lies in `folder`, and not a dangling link or a linker script.
fn holds_libclang(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| is_libclang(&entry.file_name().to_string_lossy()))
        .any(|entry| is_elf(&entry.path()))
}

/// Returns whether the headers of a compiler lie in the place in which a libclang in `folder` looks for them.
fn holds_clang_headers(folder: &Path) -> bool {
    folders_in(&folder.join("clang")).any(|version| version.join("include/stddef.h").is_file())
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; ELF.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == ELF
}

/// Returns whether a file of this name is libclang, with or without a version. `libclang-cpp` is another library: the
/// C++ interface.
fn is_libclang(name: &str) -> bool {
    let unversioned = name == "libclang.so" || name.starts_with("libclang.so.");
    let versioned =
        name.starts_with("libclang-") && (name.ends_with(".so") || name.contains(".so."));
    (unversioned || versioned) && !name.contains("-cpp.")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn libclang_cpp_is_not_libclang() {
        for library in [
            "libclang.so",
            "libclang.so.14",
            "libclang-14.so",
            "libclang-14.so.1",
            "libclang-14.so.14.0.6",
        ] {
            assert!(is_libclang(library), "{library}");
        }
        for other in [
            "libclang-cpp.so",
            "libclang-cpp.so.14",
            "libclangBasic.so",
            "libclang.a",
            "libclang_rt.asan-x86_64.so",
            "libclang-14",
        ] {
            assert!(!is_libclang(other), "{other}");
        }
    }

    #[test]
    fn a_library_counts_only_if_the_builder_of_bindings_can_load_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("libclang-cpp.so.14"), ELF).unwrap();
        symlink(at("gone"), at("libclang.so")).unwrap();
        fs::write(at("libclang.so.14"), "INPUT(libclang.so.1)").unwrap();
        assert!(!holds_libclang(folder.path()));
        fs::write(at("libclang-14.so.1"), ELF).unwrap();
        assert!(holds_libclang(folder.path()));
    }

    #[test]
    fn libclang_without_the_headers_of_its_compiler_is_not_enough() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libclang-14.so.1"), ELF).unwrap();
        let headers = folder.path().join("clang/14/include");
        fs::create_dir_all(&headers).unwrap();
        assert!(!holds_clang_headers(folder.path()));
        fs::write(headers.join("stddef.h"), "").unwrap();
        assert!(holds_clang_headers(folder.path()));
    }

    #[test]
    fn the_variable_of_the_builder_of_bindings_names_a_folder_or_the_library_and_excludes_all_others()
     {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libclang.so");
        fs::write(&library, ELF).unwrap();
        for named in [folder.path(), &library] {
            assert_eq!(
                libclang_folders(Some(named.as_os_str())),
                [folder.path().to_path_buf()]
            );
        }
    }

    #[test]
    fn only_an_executable_file_is_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("text"), "").unwrap();
        fs::create_dir(at("folder")).unwrap();
        symlink(at("gone"), at("link")).unwrap();
        fs::write(at("program"), "").unwrap();
        fs::set_permissions(at("program"), fs::Permissions::from_mode(0o755)).unwrap();
        for other in ["text", "folder", "link", "absent"] {
            assert!(!holds_program(folder.path(), other), "{other}");
        }
        assert!(holds_program(folder.path(), "program"));
    }
}
