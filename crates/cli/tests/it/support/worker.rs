//! Work in a process of its own that can be killed. The test binary starts itself with a single test to run, and the
//! environment tells that test that the process is the worker.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The environment variable that describes the work of a worker.
const WORK: &str = "STONECAST_TEST_WORK";

/// The work of this process, if the process is a worker of the calling test.
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
    /// Kills the worker with SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// Returns whether the worker still runs.
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
