//! A copy of the bare system, with a clone of the checkout.
//!
//! ```text
//!   /rust           the Rust toolchain of this machine, read only: mounted while a command runs
//!   /src/stonecast  the committed state of the checkout
//!   /src/not-run    the tests that could not run there
//! ```
//!
//! The copy is removed when it is dropped. The next run removes the copy of a killed run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fresh::{lent, mounts};
use crate::tally::{NOT_RUN_VARIABLE, NotRunFile};
use crate::tools::{output_of, run};

const ENTER: &str = include_str!("../../fresh/enter.sh");
/// The longest run of a command in the system, in seconds: many times the usual duration, since the machine may be
/// shared.
const LIMIT: &str = "3600";
/// The settings of builds in the system, which are made once and thrown away. Tests there show that everything was
/// installed, and run no long simulations.
const SETTINGS: [&str; 4] = [
    "CARGO_INCREMENTAL=0",
    "CARGO_PROFILE_DEV_OPT_LEVEL=0",
    "CARGO_PROFILE_DEV_DEBUG=0",
    "CARGO_PROFILE_TEST_DEBUG=0",
];

/// A system that runs commands.
pub struct System {
    root: PathBuf,
    toolchain: PathBuf,
    pub not_run: NotRunFile,
}

impl System {
    /// Copies `bare` to `root`, and clones `checkout` into the copy.
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

    /// The command that runs a line of the shell in the system's checkout.
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

/// Checks whether this machine lets a process have mounts of its own; the error is the reason why not.
pub fn probe() -> Result<(), String> {
    let mut command = in_a_space_of_its_own();
    run(command.arg("true")).map_err(|error| format!("{error:#}"))
}

/// The prefix of a command whose mounts and processes end with the command, and which ends with this process.
pub fn in_a_space_of_its_own() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]);
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command
}

/// Removes the system at `root`, if there is one, and nothing that is mounted below the system. Mounts of
/// [`System::command`] are private to the command and end with the command; a mount that this process sees comes from
/// another program.
pub fn remove(root: &Path) -> Result<()> {
    if !root.exists() {
        return Ok(());
    }
    // A mounted folder of the same file system has the same device number, so `rm` would not notice the mount.
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
