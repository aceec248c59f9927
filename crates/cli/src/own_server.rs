//! A server for the length of one command: this program again, as a process of its own on a pool of its own, both gone
//! when the command ends, however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::arguments::DurabilityArgument;
use crate::failure::Failure;
use crate::values::{Address, Size};

/// A pool is created in well under a second; a slow disk may take a while to prepare its first segments.
const START_MAX: Duration = Duration::from_secs(60);
/// Closing writes a checkpoint of some ten megabytes that nobody will read; after this long it is not waited for.
const STOP_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);

/// See the module documentation.
pub struct OwnServer {
    child: Child,
    folder: TempDir,
}

impl OwnServer {
    /// Starts a server on a new pool below `place`.
    pub fn start(place: &Path, durability: DurabilityArgument, capacity: Size) -> Result<Self, Failure> {
        let refuse = |error| Failure::operation(format!("cannot put a pool into {}: {error}", place.display()));
        let folder = TempDir::with_prefix_in("stonecast-bench-", place).map_err(refuse)?;
        let ready = folder.path().join("ready");
        let durability = match durability {
            DurabilityArgument::Power => "power",
            DurabilityArgument::Process => "process",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg("--data").arg(folder.path().join("pool")).arg("--ready-file").arg(&ready);
        command.args(["--durability", durability, "--capacity", &capacity.0.to_string()]);
        command.args(["--exit-with-parent", &std::process::id().to_string()]);
        let settings = std::env::vars_os().map(|(name, _)| name);
        for setting in settings.filter(|name| name.to_string_lossy().starts_with("STONECAST_")) {
            command.env_remove(setting);
        }
        let words = folder.path().join("words");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&words)?).spawn()?;
        let mut server = Self { child, folder };
        server.wait_until_ready(&ready, &words)?;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> Address {
        Address::of_pool(&self.pool())
    }

    /// Its process number.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn wait_until_ready(&mut self, ready: &Path, words: &Path) -> Result<(), Failure> {
        let start = Instant::now();
        while !ready.exists() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || start.elapsed() > START_MAX {
                let words = fs::read_to_string(words).unwrap_or_default();
                let last = words.lines().last().unwrap_or("it said nothing").trim_start_matches("error: ").to_owned();
                return Err(Failure::operation(format!("the server of this benchmark did not start: {last}")));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // What fails here has ended by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > STOP_MAX {
                let _ = self.child.kill();
            }
            thread::sleep(LOOK);
        }
    }
}
