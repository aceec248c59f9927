//! A server of our own: `stonecast serve` on a pool in a new folder, gone with this value.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stonecast_kv::limits::CLIENTS_MAX;
use tempfile::TempDir;

/// How long a server may take to be ready: it may have a large pool to recover.
const START_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(1);
const POOL: &str = "pool";
const READY: &str = "ready";

/// How to start one.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The `stonecast` binary.
    pub program: PathBuf,
    /// Where the folder of the pool is made.
    pub parent: PathBuf,
    /// `process` or `power`.
    pub durability: &'static str,
    /// Bytes of the log.
    pub capacity: u64,
    /// Whether clients publish their overwrites themselves.
    pub publishing: bool,
    /// Whether Redis clients are served, too, at any free port.
    pub resp: bool,
    /// What the program is told instead of `serve` and what follows from the fields above: it serves something else.
    pub instead: Option<Vec<String>>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerProcessError {
    /// A call of the operating system failed.
    #[error("{doing}: {source}")]
    System {
        /// What was attempted.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended instead of serving.
    #[error("the server ended ({status}): {said}")]
    Ended {
        /// Its exit status.
        status: ExitStatus,
        /// What it said last.
        said: String,
    },
    /// It neither serves nor ends.
    #[error("the server is not ready after {} s: {said}", START_MAX.as_secs())]
    NotReady {
        /// What it said last.
        said: String,
    },
}

/// See the module documentation.
pub struct ServerProcess {
    child: Child,
    options: ServerOptions,
    folder: TempDir,
}

impl ServerProcess {
    /// Starts a server on a new pool and waits until it serves.
    pub fn start(options: ServerOptions) -> Result<Self, ServerProcessError> {
        let folder = tempfile::Builder::new()
            .prefix("stonecast-bench-")
            .tempdir_in(&options.parent);
        let folder = folder.map_err(system(format!(
            "making a folder in {}",
            options.parent.display()
        )))?;
        let child = spawn(&options, folder.path())?;
        let mut server = Self {
            child,
            options,
            folder,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Kills it as a crash would, and starts another one on its pool.
    pub fn restart(&mut self) -> Result<(), ServerProcessError> {
        self.kill();
        self.child = spawn(&self.options, self.folder.path())?;
        self.wait_until_ready()
    }

    /// Kills it as a crash would. The pool stays until this value is dropped.
    pub fn kill(&mut self) {
        // An ended one cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!(
            "shm:{}",
            self.folder.path().join(POOL).join("socket").display()
        )
    }

    /// Where Redis clients connect, if they are served.
    pub fn resp_address(&self) -> Option<SocketAddr> {
        let said = fs::read_to_string(self.folder.path().join("said")).ok()?;
        let (_, rest) = said.split_once("redis://")?;
        // The end of the line, too: half of an address may be one.
        rest.contains('\n').then_some(())?;
        rest.split([',', '\n']).next()?.parse().ok()
    }

    /// The folder of its pool.
    pub fn pool(&self) -> PathBuf {
        self.folder.path().join(POOL)
    }

    fn wait_until_ready(&mut self) -> Result<(), ServerProcessError> {
        let start = Instant::now();
        while !self.is_ready() {
            let ended = self
                .child
                .try_wait()
                .map_err(system("looking at the server".to_owned()))?;
            if let Some(status) = ended {
                return Err(ServerProcessError::Ended {
                    status,
                    said: self.said(),
                });
            }
            if start.elapsed() > START_MAX {
                self.kill();
                return Err(ServerProcessError::NotReady { said: self.said() });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Whether it serves. It prints the address for Redis clients right after it has written the file.
    fn is_ready(&self) -> bool {
        self.folder.path().join(READY).exists()
            && (!self.options.resp || self.resp_address().is_some())
    }

    /// Its output to stderr, on one line.
    fn said(&mut self) -> String {
        let bytes = fs::read(self.folder.path().join("said")).unwrap_or_default();
        String::from_utf8_lossy(&bytes)
            .lines()
            .fold(String::new(), |mut said, line| {
                let separator = if said.is_empty() { "" } else { "; " };
                let _ = write!(said, "{separator}{line}");
                said
            })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(options: &ServerOptions, folder: &Path) -> Result<Child, ServerProcessError> {
    let ready = folder.join(READY);
    match fs::remove_file(&ready) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(system(format!("removing {}", ready.display()))(error));
        }
        _ => {}
    }
    let said = fs::File::create(folder.join("said"))
        .map_err(system("making a file for the server's words".to_owned()))?;
    let mut command = Command::new(&options.program);
    // Settings that a person has made for other servers are not for this one.
    let settings = std::env::vars_os().map(|(name, _)| name);
    settings
        .filter(|name| name.to_string_lossy().starts_with("STONECAST_"))
        .for_each(|name| {
            command.env_remove(name);
        });
    match &options.instead {
        None => {
            command.args([
                "serve",
                "--durability",
                options.durability,
                "--capacity",
                &options.capacity.to_string(),
                "--clients-max",
                &CLIENTS_MAX.to_string(),
                "--clients-per-process",
                &CLIENTS_MAX.to_string(),
            ]);
            command.args(if options.publishing {
                &["--clients", "publishing"][..]
            } else {
                &[]
            });
            command.args(if options.resp {
                &["--resp", "127.0.0.1:0"][..]
            } else {
                &[]
            });
        }
        Some(arguments) => {
            command.args(arguments);
        }
    }
    command
        .arg("--data")
        .arg(folder.join(POOL))
        .arg("--ready-file")
        .arg(ready)
        .args(["--exit-with-parent", &std::process::id().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .map_err(system(format!("starting {}", options.program.display())))
}

fn system(doing: String) -> impl FnOnce(io::Error) -> ServerProcessError {
    move |source| ServerProcessError::System { doing, source }
}
