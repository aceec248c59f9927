//! Peers in processes of their own that die or stop between two effects on shared memory.
//!
//! The test binary runs itself again as the peer. An environment variable chooses the peer's part; another chooses the
//! step at which it meets its fate.

mod changes;
mod end;
mod quiesced;
mod requester_dies;
mod responder_dies;
mod stops;

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::step::testing::{Fate, plan};

const PART: &str = "STONECAST_TEST_PART";
const ADDRESS: &str = "STONECAST_TEST_ADDRESS";
const STEP: &str = "STONECAST_TEST_STEP";

/// A peer in a process of its own; killed when dropped.
struct Peer(Child);

impl Peer {
    /// Starts a peer that plays `part` and meets its fate at `step`.
    fn start(part: &str, address: &str, step: u64) -> Self {
        let mut command =
            Command::new(std::env::current_exe().expect("the test binary has a path"));
        command.args([
            "--exact",
            "process_tests::plays_its_part",
            "--nocapture",
            "--test-threads=1",
        ]);
        command
            .env(PART, part)
            .env(ADDRESS, address)
            .env(STEP, step.to_string());
        command.stdout(std::process::Stdio::null());
        Self(command.spawn().expect("the test binary runs again"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a child can be waited for");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(process, signal).expect("a child can be signalled");
    }

    /// Waits until the system reports that the peer has stopped itself.
    fn wait_until_stopped(&self) {
        let process = rustix::process::Pid::from_child(&self.0);
        let options = rustix::process::WaitOptions::UNTRACED;
        let found =
            rustix::process::waitpid(Some(process), options).expect("a child can be waited for");
        assert!(
            found.expect("its state changes").1.stopped(),
            "the peer stops and does not end"
        );
    }

    /// Waits for the end. True if the peer was killed at its step, false if it played its part to the end.
    fn was_killed(&mut self) -> bool {
        let status = self.0.wait().expect("a child can be waited for");
        assert!(
            status.success() || status.signal() == Some(9),
            "the peer failed by itself: {status}"
        );
        !status.success()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Fails if the peer has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test but the peers of the other tests: does nothing unless another test started it.
#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let address = std::env::var(ADDRESS).expect("the test passes its address");
    let step = std::env::var(STEP)
        .expect("the test passes the step")
        .parse()
        .expect("a number");
    match part.as_str() {
        "requester" => requester_dies::play(&address, step),
        "changer" => changes::play(&address, step),
        "appender" => requester_dies::play_appender(&address, step),
        "responder" => responder_dies::play(&address, step),
        "appends again and again" => quiesced::play(&address),
        "stops while it writes" => stops::play(&address, "requester: written"),
        "stops while it changes" => changes::play_stopped(&address),
        "stops while it appends" => stops::play_appender(&address),
        "stops while it appends forever" => stops::play_endless_appender(&address),
        "stops with a place" => stops::play_place_holder(&address),
        other => panic!("no such part: {other}"),
    }
}

/// Lets the calling thread die after `step` more steps.
fn die_at(step: u64) {
    plan(None, step, Fate::Die);
}

/// Descriptors and mappings of this process that belong to the fabric.
fn footprint() -> (usize, usize) {
    let files = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted");
    let name =
        |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    let files = files
        .filter_map(name)
        .filter(|name| name.to_string_lossy().contains("stonecast-connection"))
        .count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    (
        files,
        maps.lines()
            .filter(|line| line.contains("stonecast-connection"))
            .count(),
    )
}

/// Tests that count the resources of the process must run alone.
static ALONE: Mutex<()> = Mutex::new(());

/// The resources of a test: a folder for a socket, and the right to run alone.
pub(crate) struct Stage {
    _folder: tempfile::TempDir,
    pub(crate) address: String,
    _alone: MutexGuard<'static, ()>,
}

pub(crate) fn stage() -> Stage {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder for sockets");
    let address = format!("shm:{}", folder.path().join("socket").display());
    Stage {
        _folder: folder,
        address,
        _alone: alone,
    }
}
