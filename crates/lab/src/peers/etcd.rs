//! An etcd of one member in a separate folder. The server ends when its value is dropped.

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use ureq::Agent;

use super::PeerError;

const PROGRAM: &str = "etcd";
/// The time limit for a server to answer its first request.
const START_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running etcd, and a kept connection to its JSON gateway.
pub struct Etcd {
    child: Child,
    endpoint: String,
    agent: Agent,
    _folder: TempDir,
}

fn free_address() -> Result<String, PeerError> {
    // A free port: no other program is likely to take the port before the server does.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = address.map_err(PeerError::system("looking for a free port"))?;
    Ok(address.to_string())
}

impl Etcd {
    /// Starts a server whose files lie in a new folder under `parent`.
    pub fn start(parent: &Path) -> Result<Self, PeerError> {
        let folder = tempfile::Builder::new().prefix("etcd-").tempdir_in(parent);
        let folder = folder.map_err(PeerError::system("making a folder for etcd"))?;
        let (endpoint, peer) = (free_address()?, format!("http://{}", free_address()?));
        let client = format!("http://{endpoint}");
        let child = Command::new(PROGRAM)
            .args(["--name", "only", "--data-dir"])
            .arg(folder.path())
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("only={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => PeerError::Missing { program: PROGRAM },
            _ => PeerError::System {
                doing: "starting etcd",
                source,
            },
        })?;
        let agent = Agent::config_builder()
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(5)))
            .build()
            .new_agent();
        let server = Self {
            child,
            endpoint,
            agent,
            _folder: folder,
        };
        let start = Instant::now();
        while let Err(error) = server.post("/v3/kv/range", r#"{"key":"eA=="}"#) {
            if start.elapsed() > START_MAX {
                return Err(PeerError::NotStarted {
                    program: PROGRAM,
                    reason: error.to_string(),
                });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(server)
    }

    /// `HOST:PORT` for clients.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Puts a value of the gateway: key and value in base64.
    pub fn put(&self, key: &str, value: &str) -> Result<(), PeerError> {
        let request = format!(r#"{{"key":"{key}","value":"{value}"}}"#);
        self.post("/v3/kv/put", &request)
    }

    fn post(&self, path: &str, request: &str) -> Result<(), PeerError> {
        let post = self.agent.post(format!("http://{}{path}", self.endpoint));
        let answer = post.content_type("application/json").send(request);
        let answer = answer.and_then(|mut answer| answer.body_mut().read_to_vec());
        answer.map_err(|error| PeerError::Etcd(error.to_string()))?;
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
