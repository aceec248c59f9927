//! One copy of the bare system, with a clone of the checkout in it.
//!
//! ```text
//!   /rust           the Rust toolchain of this machine, read only: mounted while a command runs
//!   /src/stonecast  the committed state of the checkout
//!   /src/not-run    the tests that could not run there
//! ```
//!
//! The copy is removed when it is dropped; the next run removes what a killed one left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fresh::{lent, mounts};
use crate::tally::{NOT_RUN_VARIABLE, NotRunFile};
use crate::tools::{output_of, run};

const ENTER: &str = include_str!("../../fresh/enter.sh");
/// Longest run of a command there, in seconds: many times the usual duration, since the machine may
/// be shared.
const LIMIT: &str = "3600";
/// Settings of builds there, which are made once and thrown away.
const SETTINGS: [&str; 3] = [
    "CARGO_INCREMENTAL=0",
    "CARGO_PROFILE_DEV_DEBUG=0",
    "CARGO_PROFILE_TEST_DEBUG=0",
];

/// A system to run commands in.
pub struct System {
    root: PathBuf,
    toolchain: PathBuf,
    pub not_run: NotRunFile,
}

impl System {
    /// Copies `bare` to `root`, and clones `checkout` into it.
    pub fn new(bare: &Path, root: PathBuf, checkout: &Path) -> Result<Self> {
        remove(&root)?;
        run(Command::new("cp").arg("-a").arg(bare).arg(&root))?;
        let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
        let system = Self {
            not_run: NotRunFile::new(root.join("src"))?,
            toolchain: sysroot.trim_end().into(),
            root,
        };
        lent::lend(&system.root)?;
        run(Command::new("git")
            .args(["clone", "--quiet", "--no-hardlinks"])
            .arg(checkout)
            .arg(system.root.join("src/stonecast")))?;
        Ok(system)
    }

    /// Runs a line of the shell there, in the checkout.
    pub fn command(&self, line: &str) -> Command {
        let mut command = in_a_space_of_its_own();
        command
            .args(["sh", "-euc", ENTER, "enter"])
            .arg(&self.root)
            .arg(&self.toolchain)
            .args([LIMIT, line])
            .args(SETTINGS)
            .arg(format!("{NOT_RUN_VARIABLE}=/src/not-run"))
            .args(lent::variables())
            .stdin(Stdio::null());
        command
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.root) {
            println!("{error:#}");
        }
    }
}

/// Whether this machine lets a process have mounts of its own; the reason if not.
pub fn probe() -> Result<(), String> {
    let mut command = in_a_space_of_its_own();
    run(command.arg("true")).map_err(|error| format!("{error:#}"))
}

/// The prefix of a command whose mounts and processes end with it, and which ends with this
/// process.
pub fn in_a_space_of_its_own() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]);
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command
}

/// Removes the system at `root`, if there is one, and nothing that is mounted below it. Mounts of
/// [`System::command`] are private to its command and end with it; a mount that this process sees
/// comes from another program.
pub fn remove(root: &Path) -> Result<()> {
    if !root.exists() {
        return Ok(());
    }
    // A folder of the same file system that is mounted there has the same device number, and `rm` would not notice it.
    let mounted = mounts::below(root)?;
    ensure!(
        mounted.is_empty(),
        "{} is not removed: something is mounted at {}; unmount it, and remove the folder by hand",
        root.display(),
        mounted[0].display()
    );
    run(Command::new("rm")
        .args(["-rf", "--one-file-system"])
        .arg(root))
    .with_context(|| format!("removing {}", root.display()))
}
