//! A server process: `stonecast serve` on a pool in a new folder. Dropping the value ends the server and removes the
//! folder.

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

/// The time limit for a server to be ready, which may have a large pool to recover.
const START_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(1);
const POOL: &str = "pool";
const READY: &str = "ready";

/// The options of a server process.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The `stonecast` binary.
    pub program: PathBuf,
    /// The parent folder of the pool's folder.
    pub parent: PathBuf,
    /// `process` or `power`.
    pub durability: &'static str,
    /// Bytes of the log.
    pub capacity: u64,
    /// Whether clients publish their overwrites themselves.
    pub publishing: bool,
    /// Whether the server also serves Redis clients, at any free port.
    pub resp: bool,
    /// The arguments in place of `serve` and the fields above, for a program that serves something else.
    pub instead: Option<Vec<String>>,
}

/// The reason why no server runs.
#[derive(Debug, thiserror::Error)]
pub enum ServerProcessError {
    /// A call of the operating system failed.
    #[error("{doing}: {source}")]
    System {
        /// The attempted action.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The process ended before it served.
    #[error("the server ended ({status}): {said}")]
    Ended {
        /// The exit status.
        status: ExitStatus,
        /// The last messages of the process.
        said: String,
    },
    /// The process neither serves nor ends.
    #[error("the server is not ready after {} s: {said}", START_MAX.as_secs())]
    NotReady {
        /// The last messages of the process.
        said: String,
    },
}

/// A process of `stonecast serve`. A drop ends the process and removes its folder.
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

    /// Kills the server as a crash would, and starts another server on the same pool.
    pub fn restart(&mut self) -> Result<(), ServerProcessError> {
        self.kill();
        self.child = spawn(&self.options, self.folder.path())?;
        self.wait_until_ready()
    }

    /// Kills the server as a crash would. The pool stays until this value is dropped.
    pub fn kill(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The process number of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address at which the server listens.
    pub fn address(&self) -> String {
        format!(
            "shm:{}",
            self.folder.path().join(POOL).join("socket").display()
        )
    }

    /// The address for Redis clients, if the server serves them.
    pub fn resp_address(&self) -> Option<SocketAddr> {
        let said = fs::read_to_string(self.folder.path().join("said")).ok()?;
        let (_, rest) = said.split_once("redis://")?;
        // The line must be complete: half of an address may be an address.
        rest.contains('\n').then_some(())?;
        rest.split([',', '\n']).next()?.parse().ok()
    }

    /// The folder of the server's pool.
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

    /// Returns whether the server serves. The server prints the address for Redis clients right after it has written
    /// the ready file.
    fn is_ready(&self) -> bool {
        self.folder.path().join(READY).exists()
            && (!self.options.resp || self.resp_address().is_some())
    }

    /// The server's output to stderr, on one line.
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
        .map_err(system("making a file for the server's messages".to_owned()))?;
    let mut command = Command::new(&options.program);
    // A person's settings for other servers do not apply to this server.
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
