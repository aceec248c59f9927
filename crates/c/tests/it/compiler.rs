//! Programs in C, compiled as a user compiles them: with an installed library, found by pkg-config.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use stonecast::server::ServerHandle;
use stonecast::{Durability, Server};
use tempfile::TempDir;

use crate::header;
use crate::prefix::{Files, install};

/// The form of the library that a program links.
#[derive(Clone, Copy, Debug)]
pub enum Linked {
    Shared,
    Static,
}

impl Linked {
    /// The name for pkg-config.
    fn package(self) -> &'static str {
        match self {
            Self::Shared => "stonecast",
            Self::Static => "stonecast-static",
        }
    }
}

/// Why this machine cannot compile; `None` if it can.
pub fn missing(programs: &[&str]) -> Option<String> {
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let missing = programs.iter().find(|name| !is_there(name))?;
    Some(format!("{missing} is not installed"))
}

/// A folder with the installed library, which lives as long as the process of the tests.
fn prefix() -> &'static Path {
    static PREFIX: LazyLock<TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        // Cargo puts the libraries beside the tests that it builds.
        let tests = std::env::current_exe().unwrap();
        let files = Files {
            header: &header::path(),
            built: tests.parent().unwrap(),
            version: env!("CARGO_PKG_VERSION"),
        };
        install(&files, folder.path()).unwrap();
        folder
    });
    PREFIX.path()
}

/// The options of the compiler, as pkg-config prints them.
fn options(linked: Linked) -> Vec<String> {
    let printed = Command::new("pkg-config")
        .args(["--cflags", "--libs", linked.package()])
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"))
        .output()
        .unwrap();
    assert!(printed.status.success(), "{}", words(&printed));
    let printed = String::from_utf8(printed.stdout).unwrap();
    printed.split_whitespace().map(str::to_owned).collect()
}

/// A compiled program, in a folder that is removed with it.
pub struct Program {
    folder: TempDir,
}

impl Program {
    /// Compiles `source` by `compiler` with further `flags`.
    pub fn new(compiler: &str, flags: &[&str], source: &Path, linked: Linked) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
        command.args(flags).arg(source).args(options(linked));
        command.arg("-o").arg(folder.path().join("program"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}\n{}", words(&output));
        Self { folder }
    }

    /// Compiles a program in C11.
    pub fn c(flags: &[&str], source: &Path, linked: Linked) -> Self {
        Self::new("cc", &[&["-std=c11"], flags].concat(), source, linked)
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// The program, to be started.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.folder.path().join("program"));
        command.env("LD_LIBRARY_PATH", prefix().join("lib"));
        // The tests may run under a sanitizer with options of their own.
        command.env_remove("ASAN_OPTIONS");
        command
    }
}

/// Everything that a program printed.
pub fn words(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// A server over shared memory in this process.
pub struct Place {
    server: ServerHandle,
    _folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::builder(folder.path().join("pool"))
            .durability(Durability::Process)
            .capacity(16 << 20)
            .segment_size(1 << 20)
            .serve()
            .unwrap();
        Self {
            server,
            _folder: folder,
        }
    }

    pub fn url(&self) -> String {
        self.server.address().to_string()
    }

    /// Ends the server.
    pub fn end(self) {
        self.server.shutdown().unwrap();
    }
}

/// A file of the repository.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
