//! Real processes: a server that can be killed, and commands with a bound on their time.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The time limit of a process, which only a hang exceeds.
const TIME_MAX: Duration = Duration::from_secs(240);
/// Pause between two checks of a process that should end.
const LOOK: Duration = Duration::from_millis(1);

/// The output of a command, and how the command ended.
#[derive(Debug)]
pub struct Output {
    /// Exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The results.
    pub stdout: Vec<u8>,
    /// The messages.
    pub stderr: String,
}

impl Output {
    /// The results as text; the command must have succeeded.
    pub fn text(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        std::str::from_utf8(&self.stdout).expect("UTF-8 on stdout")
    }

    /// The results as one JSON object; the command must have succeeded.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(
            self.text().matches('\n').count(),
            1,
            "one object on one line: {}",
            self.text()
        );
        serde_json::from_str(self.text()).expect("JSON on stdout")
    }

    /// Checks that a command with `--json` failed with `code` and with this name of the status, and returns the last
    /// printed object.
    pub fn json_failure(&self, code: i32, name: &str) -> serde_json::Value {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        let last = String::from_utf8_lossy(&self.stdout);
        let last = last.lines().last().expect("a line on stdout");
        let failure: serde_json::Value = serde_json::from_str(last).expect("JSON on stdout");
        assert_eq!(
            (&failure["error"], &failure["status"]),
            (&name.into(), &code.into())
        );
        failure
    }

    /// Checks that the command failed with `code` and a message for people, and returns the message.
    pub fn refusal(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(
            self.stdout.is_empty(),
            "{}",
            String::from_utf8_lossy(&self.stdout)
        );
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        assert_manners(&self.stderr);
        &self.stderr
    }
}

/// Checks that a message for people contains neither a backtrace nor a panic.
fn assert_manners(stderr: &str) {
    for word in [
        "panicked",
        "RUST_BACKTRACE",
        "stack backtrace",
        "stonecast is broken",
    ] {
        assert!(!stderr.contains(word), "{stderr}");
    }
}

/// The binary under test, with nothing set in its environment.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stonecast"));
    let settings = std::env::vars_os().map(|(name, _)| name);
    settings
        .filter(|name| name.to_string_lossy().starts_with("STONECAST_"))
        .for_each(|name| {
            command.env_remove(name);
        });
    command
}

/// Runs a command to its end.
pub fn stonecast<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    let mut command = command();
    command.args(arguments);
    run(command, b"")
}

/// Runs `command` with `input` on its stdin.
pub fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // A command that ends before it has read all of its input closes the pipe.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let stdout = read_all(child.stdout.take().expect("a pipe"));
    let stderr = read_all(child.stderr.take().expect("a pipe"));
    let status = wait(&mut child);
    writer.join().expect("the writer does not panic");
    let stderr =
        String::from_utf8_lossy(&stderr.join().expect("the reader does not panic")).into_owned();
    assert_manners(&stderr);
    Output {
        code: status.code(),
        stdout: stdout.join().expect("the reader does not panic"),
        stderr,
    }
}

fn read_all(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            return status;
        }
        if start.elapsed() > TIME_MAX {
            child.kill().expect("the child can be killed");
            panic!("process {} did not end in {TIME_MAX:?}", child.id());
        }
        thread::sleep(LOOK);
    }
}

/// A running server. Killed when dropped.
pub struct Server {
    child: Child,
    words: Receiver<String>,
    heard: String,
    data: PathBuf,
}

impl Server {
    /// Starts a server on the pool in `data` and waits until it is ready.
    pub fn start<S: AsRef<OsStr>>(data: &Path, arguments: impl IntoIterator<Item = S>) -> Self {
        let mut server = Self::launch(data, arguments);
        assert!(
            server.wait_until_ready(),
            "the server did not start: {}",
            server.heard
        );
        server
    }

    /// Starts a server that must refuse, and returns its message.
    pub fn refused<S: AsRef<OsStr>>(data: &Path, arguments: impl IntoIterator<Item = S>) -> String {
        let mut server = Self::launch(data, arguments);
        assert!(!server.wait_until_ready(), "the server started");
        let status = wait(&mut server.child);
        // Status 5 means that the pool is damaged.
        assert!(matches!(status.code(), Some(1 | 5)), "{}", server.heard);
        assert!(server.heard.contains("error: "), "{}", server.heard);
        assert_manners(&server.heard);
        server.heard.clone()
    }

    /// Starts a server and does not wait.
    pub fn launch<S: AsRef<OsStr>>(data: &Path, arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = command();
        command.arg("serve").arg("--data").arg(data).args(arguments);
        Self::spawn(command, data)
    }

    /// Starts a server with this command, which names the pool in `data`, and waits until it is ready.
    pub fn of(command: Command, data: &Path) -> Self {
        let mut server = Self::spawn(command, data);
        assert!(
            server.wait_until_ready(),
            "the server did not start: {}",
            server.heard
        );
        server
    }

    /// Starts a server without any argument in `folder` and waits until it is ready.
    pub fn start_with_defaults(folder: &Path) -> Self {
        let mut command = command();
        command.arg("serve").current_dir(folder);
        Self::of(command, &folder.join("stonecast-data"))
    }

    /// Starts a server with this command, which names the pool in `data`, and does not wait.
    pub fn spawn(mut command: Command, data: &Path) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (sender, words) = mpsc::channel();
        let stderr = child.stderr.take().expect("a pipe");
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n') {
                let line = line.expect("a pipe can be read");
                if sender
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
            }
        });
        Self {
            child,
            words,
            heard: String::new(),
            data: data.to_owned(),
        }
    }

    /// Waits for the line that reports a ready server; false if the server ends before that line.
    pub fn wait_until_ready(&mut self) -> bool {
        loop {
            match self.words.recv_timeout(TIME_MAX) {
                Ok(line) => {
                    self.heard += &line;
                    self.heard += "\n";
                    if line.starts_with("ready: ") {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the server neither started nor ended: {}", self.heard)
                }
            }
        }
    }

    /// The server's messages until it was ready, and since.
    pub fn heard(&mut self) -> &str {
        while let Ok(line) = self.words.try_recv() {
            self.heard += &line;
            self.heard += "\n";
        }
        &self.heard
    }

    /// All messages of the server, once it has ended.
    pub fn heard_to_the_end(&mut self) -> &str {
        while let Ok(line) = self.words.recv_timeout(TIME_MAX) {
            self.heard += &line;
            self.heard += "\n";
        }
        &self.heard
    }

    /// The server's process number.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The server's address, for `--connect`.
    pub fn address(&self) -> String {
        format!("shm:{}", self.socket().display())
    }

    /// The socket itself.
    pub fn socket(&self) -> PathBuf {
        // A device has no folder for a socket.
        let is_device =
            std::fs::metadata(&self.data).is_ok_and(|status| status.file_type().is_char_device());
        match self.data.file_name().filter(|_| is_device) {
            Some(name) => Path::new("/run").join(format!("stonecast-{}", name.display())),
            None => self.data.join("socket"),
        }
    }

    /// Runs a client command against the server.
    pub fn client(&self, arguments: &[&str]) -> Output {
        self.client_with_input(arguments, b"")
    }

    /// Runs a client command with `input` on its stdin.
    pub fn client_with_input(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = command();
        command.args(arguments).arg("--connect").arg(self.address());
        run(command, input)
    }

    /// Sends the server a signal. A server that is told to stop has stopped when the call returns.
    pub fn signal(&self, signal: Signal) {
        let process = Pid::from_child(&self.child);
        kill_process(process, signal).expect("a child can be sent signals");
        if signal == Signal::STOP {
            // The signal is sent before the last thread has stopped.
            let stopped = waitpid(Some(process), WaitOptions::UNTRACED);
            stopped.expect("a child can be waited for");
        }
    }

    /// Waits for the server's end.
    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Kills the server with SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        wait(&mut self.child);
    }

    /// Sends SIGTERM, and waits for the end in order.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.heard());
        assert_manners(&self.heard);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
