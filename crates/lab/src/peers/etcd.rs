//! An etcd whose members are processes with files in one separate folder. The members end when the value is dropped.

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use ureq::Agent;

use super::{EtcdConnection, PeerError};

const PROGRAM: &str = "etcd";
/// The time limit for the members to answer their first request.
const START_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running etcd, and a kept connection to the JSON gateway of its leader.
pub struct Etcd {
    members: Vec<Child>,
    endpoint: String,
    agent: Agent,
    folder: TempDir,
}

/// The addresses of a member.
struct Place {
    name: String,
    endpoint: String,
    peer: String,
}

fn free_address() -> Result<String, PeerError> {
    // A free port: no other program is likely to take the port before the server does.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = address.map_err(PeerError::system("looking for a free port"))?;
    Ok(address.to_string())
}

impl Place {
    fn new(number: usize) -> Result<Self, PeerError> {
        Ok(Self {
            name: format!("member-{number}"),
            endpoint: free_address()?,
            peer: format!("http://{}", free_address()?),
        })
    }

    fn spawn(&self, all: &str, folder: &Path) -> Result<Child, PeerError> {
        let client = format!("http://{}", self.endpoint);
        let child = Command::new(PROGRAM)
            .args(["--name", &self.name, "--data-dir"])
            .arg(folder.join(&self.name))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &self.peer])
            .args(["--initial-advertise-peer-urls", &self.peer])
            .args(["--initial-cluster", all])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => PeerError::Missing { program: PROGRAM },
            _ => PeerError::System {
                doing: "starting etcd",
                source,
            },
        })
    }
}

impl Etcd {
    /// Starts `members` members whose files lie in a new folder under `parent`.
    pub fn start(members: usize, parent: &Path) -> Result<Self, PeerError> {
        let folder = tempfile::Builder::new().prefix("etcd-").tempdir_in(parent);
        let folder = folder.map_err(PeerError::system("making a folder for etcd"))?;
        let places: Vec<Place> = (0..members).map(Place::new).collect::<Result<_, _>>()?;
        let names = places
            .iter()
            .map(|place| format!("{}={}", place.name, place.peer));
        let all = names.collect::<Vec<_>>().join(",");
        let agent = Agent::config_builder()
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(5)))
            .build()
            .new_agent();
        let mut started = Self {
            members: Vec::new(),
            endpoint: String::new(),
            agent,
            folder,
        };
        for place in &places {
            let member = place.spawn(&all, started.folder.path())?;
            started.members.push(member);
        }
        let start = Instant::now();
        loop {
            match started.leader(&places) {
                Ok(leader) => started.endpoint = leader,
                Err(reason) if start.elapsed() > START_MAX => {
                    return Err(PeerError::NotStarted {
                        program: PROGRAM,
                        reason: reason.to_string(),
                    });
                }
                Err(_) => {
                    thread::sleep(LOOK_EVERY);
                    continue;
                }
            }
            return Ok(started);
        }
    }

    /// The endpoint of the member that leads all members of `places`, when all of them answer and agree.
    fn leader(&self, places: &[Place]) -> Result<String, PeerError> {
        let mut leading = None;
        for place in places {
            let text = self.post_to(&place.endpoint, "/v3/maintenance/status", "{}")?;
            let status: Value = serde_json::from_str(&text)
                .map_err(|error| PeerError::Etcd(format!("status: {error}")))?;
            let (member, leader) = (&status["header"]["member_id"], &status["leader"]);
            if leader.is_string() && member == leader {
                leading = Some(place.endpoint.clone());
            }
        }
        leading.ok_or_else(|| PeerError::Etcd("no member leads".to_owned()))
    }

    /// A connection to the leader, as etcd's own clients make it.
    pub fn connect(&self) -> Result<EtcdConnection, PeerError> {
        EtcdConnection::open(&self.endpoint)
    }

    /// `HOST:PORT` of the leader, for clients.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Puts a value of the gateway: key and value in base64.
    pub fn put(&self, key: &str, value: &str) -> Result<(), PeerError> {
        let request = format!(r#"{{"key":"{key}","value":"{value}"}}"#);
        self.post("/v3/kv/put", &request)
    }

    fn post(&self, path: &str, request: &str) -> Result<(), PeerError> {
        self.post_to(&self.endpoint, path, request).map(drop)
    }

    fn post_to(&self, endpoint: &str, path: &str, request: &str) -> Result<String, PeerError> {
        let post = self.agent.post(format!("http://{endpoint}{path}"));
        let answer = post.content_type("application/json").send(request);
        let answer = answer.and_then(|mut answer| answer.body_mut().read_to_string());
        answer.map_err(|error| PeerError::Etcd(error.to_string()))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            // The member may have ended already.
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}
