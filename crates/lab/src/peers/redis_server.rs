//! A redis-server on a Unix socket in a separate folder. The server ends when its value is dropped.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{PeerError, RedisConnection};

const PROGRAM: &str = "redis-server";
/// The time limit for a server to listen.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The persistence of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisPersistence {
    /// No persistence, only memory.
    None,
    /// Persistence over power loss: each answer waits for the sync of the append-only file.
    AppendFsyncAlways,
}

/// A running redis-server.
pub struct RedisServer {
    child: Child,
    socket: PathBuf,
    address: SocketAddr,
    /// The servers that follow this one.
    replicas: Vec<RedisServer>,
    _folder: TempDir,
}

impl RedisServer {
    /// Starts a server whose files lie in a new folder under `parent`.
    pub fn start(persistence: RedisPersistence, parent: &Path) -> Result<Self, PeerError> {
        Self::start_as(persistence, parent, &[])
    }

    /// Starts a server and as many replicas that follow it, and waits until they do.
    pub fn start_replicated(
        persistence: RedisPersistence,
        replicas: u8,
        parent: &Path,
    ) -> Result<Self, PeerError> {
        // A replica that joins an empty server at once does so before anything is measured.
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let mut server = Self::start_as(persistence, parent, &at_once)?;
        let port = server.address.port().to_string();
        for _ in 0..replicas {
            let following = ["--replicaof", "127.0.0.1", &port];
            let replica = Self::start_as(persistence, parent, &following)?;
            server.replicas.push(replica);
        }
        let (start, mut connection) = (Instant::now(), server.connect()?);
        while !connection.wait_for_replicas(replicas)? {
            if start.elapsed() > START_MAX {
                return Err(PeerError::NotStarted {
                    program: PROGRAM,
                    reason: format!("{replicas} replicas do not follow their server"),
                });
            }
        }
        Ok(server)
    }

    fn start_as(
        persistence: RedisPersistence,
        parent: &Path,
        more: &[&str],
    ) -> Result<Self, PeerError> {
        let folder = tempfile::Builder::new().prefix("redis-").tempdir_in(parent);
        let folder = folder.map_err(PeerError::system("making a folder for redis-server"))?;
        let socket = folder.path().join("socket");
        let appending: &[&str] = match persistence {
            RedisPersistence::None => &["--appendonly", "no"],
            // A rewrite of the file during a measurement would slow redis-server.
            RedisPersistence::AppendFsyncAlways => &[
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--auto-aof-rewrite-percentage",
                "0",
            ],
        };
        // A free port: no other program is likely to take the port before the server does.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = address.map_err(PeerError::system("looking for a free port"))?;
        let child = Command::new(PROGRAM)
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args([
                "--save",
                "",
                "--daemonize",
                "no",
                "--loglevel",
                "warning",
                "--unixsocketperm",
                "700",
            ])
            .args(appending)
            .args(more)
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => PeerError::Missing { program: PROGRAM },
            _ => PeerError::System {
                doing: "starting redis-server",
                source,
            },
        })?;
        let mut server = Self {
            child,
            socket,
            address,
            replicas: Vec::new(),
            _folder: folder,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The server's process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server's address for TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    pub fn connect(&self) -> Result<RedisConnection, PeerError> {
        RedisConnection::open(&self.socket)
    }

    fn wait_until_ready(&mut self) -> Result<(), PeerError> {
        let start = Instant::now();
        loop {
            let Err(error) = self.connect().and_then(|mut connection| connection.ping()) else {
                return Ok(());
            };
            let ended = self
                .child
                .try_wait()
                .map_err(PeerError::system("looking at redis-server"))?;
            if ended.is_some() || start.elapsed() > START_MAX {
                return Err(PeerError::NotStarted {
                    program: PROGRAM,
                    reason: self.last_words(&error),
                });
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn last_words(&mut self, error: &PeerError) -> String {
        // Only an ended server closes its output; a hanging server would block the reader.
        let _ = self.child.kill();
        let mut words = String::new();
        if let Some(output) = &mut self.child.stdout {
            let _ = output.read_to_string(&mut words);
        }
        if words.trim().is_empty() {
            error.to_string()
        } else {
            words.trim().to_owned()
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.replicas.clear();
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
