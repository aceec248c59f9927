//! A store and its gateway in a process of their own, which can be killed.
//!
//! The process is another run of this test binary, whose environment tells it to be the server.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use stonecast_gateway::{GatewayOptions, spawn};
use stonecast_media::Durability;

use super::world::serve;

const DIRECTORY: &str = "STONECAST_TEST_SERVER_DIRECTORY";
const DURABILITY: &str = "STONECAST_TEST_SERVER_DURABILITY";
const BUFFER_SIZE: &str = "STONECAST_TEST_SERVER_BUFFER_SIZE";
const CAPACITY: u64 = 1 << 30;

/// The options of such a process that differ from the defaults.
#[derive(Clone, Copy, Default)]
pub struct Bounds {
    /// Bytes of requests and replies of all connections.
    pub buffer_size: Option<usize>,
}

/// A store and its gateway in a process of their own. A drop kills the process.
pub struct Process {
    child: Child,
    errors: PathBuf,
    /// The address for Redis clients.
    pub address: SocketAddr,
}

impl Process {
    /// Starts a process on the pool in `directory`. A missing pool is created.
    pub fn start(directory: &Path, durability: Durability) -> Self {
        Self::within(Bounds::default(), directory, durability)
    }

    /// Starts a process like [`Process::start`], with these bounds.
    pub fn within(bounds: Bounds, directory: &Path, durability: Durability) -> Self {
        let errors = directory.join("errors");
        let ready = directory.join("ready");
        // An earlier run may have left the file.
        let _ = std::fs::remove_file(&ready);
        let mut command = Command::new(std::env::current_exe().unwrap());
        if let Some(size) = bounds.buffer_size {
            command.env(BUFFER_SIZE, size.to_string());
        }
        let child = command
            .args([
                "--exact",
                "support::process::server_process",
                "--ignored",
                "--nocapture",
            ])
            .env(DIRECTORY, directory)
            .env(DURABILITY, durability.to_string())
            .stdout(Stdio::null())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let text = loop {
            match std::fs::read_to_string(&ready) {
                Ok(text) if text.ends_with('\n') => break text,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
            assert!(Instant::now() < deadline, "the server process starts");
        };
        Self {
            child,
            errors,
            address: text.trim().parse().unwrap(),
        }
    }

    /// Limits the process to `spare` more files than it has open.
    pub fn limit_files(&self, spare: u64) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count() as u64;
        let pid = Pid::from_child(&self.child);
        let limit = Rlimit {
            current: Some(open + spare),
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        prlimit(Some(pid), Resource::Nofile, limit).unwrap();
    }

    /// Limits the process to `spare` more bytes than it has mapped; `None` lifts the limit.
    pub fn limit_memory(&self, spare: Option<u64>) {
        let limit = Rlimit {
            current: spare.map(|spare| self.status("VmSize:") + spare),
            maximum: getrlimit(Resource::As).maximum,
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::As, limit).unwrap();
    }

    /// The process's messages on stderr.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap()
    }

    /// Processor time that the process has used, in seconds.
    pub fn processor_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let after_name = stat.rsplit_once(')').unwrap().1;
        let ticks: f64 = after_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<f64>().unwrap())
            .sum();
        ticks / rustix::param::clock_ticks_per_second() as f64
    }

    /// Private memory of the process: neither files nor shared memory.
    pub fn private_memory(&self) -> u64 {
        self.status("RssAnon:")
    }

    /// A size in the kernel's report of the process, in bytes.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = size.unwrap().split_whitespace().next().unwrap();
        kilobytes.parse::<u64>().unwrap() << 10
    }

    /// Kills the process in the middle of its work.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The work of the process, which is not a test.
#[test]
#[ignore = "the server of other tests, not a test"]
fn server_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    let directory = Path::new(&directory);
    let durability = match std::env::var(DURABILITY).unwrap().as_str() {
        "power" => Durability::Power,
        _ => Durability::Process,
    };
    let address = format!("shm:{}", directory.join("socket").display());
    let mut gateway = None;
    let start = || {
        let mut options = GatewayOptions::new("127.0.0.1:0".parse().unwrap(), &address);
        if let Ok(size) = std::env::var(BUFFER_SIZE) {
            options.limits.memory_size = size.parse().unwrap();
        }
        let handle = spawn(options).unwrap();
        let resp = handle.resp_address().unwrap();
        gateway = Some(handle);
        let ready = directory.join("ready");
        std::fs::write(directory.join("ready.new"), format!("{resp}\n")).unwrap();
        std::fs::rename(directory.join("ready.new"), ready).unwrap();
    };
    // The process serves until it is killed.
    serve(
        &directory.join("pool"),
        &address,
        durability,
        CAPACITY,
        start,
        &|| false,
    );
}
