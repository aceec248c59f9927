//! Work in a process of its own that can be killed: the test binary starts itself, with one test as the only one to run,
//! and that test sees in its environment that it is the worker.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The variable that is set in a worker to describe its work.
const WORK: &str = "STONECAST_TEST_WORK";

/// The work of this process, if it is a worker of the test that asks.
pub fn as_worker() -> Option<String> {
    std::env::var(WORK).ok()
}

/// Starts this test binary again; in it, `test` (its full name) finds `work` by [`as_worker`].
pub fn start_worker(test: &str, work: &str, words: &Path) -> Worker {
    let words = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(words)
        .expect("the file for words opens");
    let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
    command
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(WORK, work);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(words)
        .spawn()
        .expect("the test binary starts");
    Worker { child }
}

/// A running worker. Killed when dropped.
pub struct Worker {
    child: Child,
}

impl Worker {
    /// kill -9, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// Whether the worker still runs.
    pub fn runs(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be waited for")
            .is_none()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
