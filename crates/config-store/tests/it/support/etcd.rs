//! etcd servers on the loopback, in a temporary directory.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, TlsConfig};

use super::Certificates;

/// The reason why there is no etcd here; `None` if there is one.
pub fn missing() -> Option<&'static str> {
    let version = Command::new("etcd")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_err().then_some("etcd is not installed")
}

/// One server, which is killed with this value.
pub struct Member {
    /// `HOST:PORT` for clients.
    pub endpoint: String,
    name: String,
    peer: String,
    initial: String,
    folder: PathBuf,
    /// The directory of the server's certificates; `None` if it does not speak TLS.
    tls: Option<PathBuf>,
    agent: Agent,
    child: Option<Child>,
}

/// Servers of one cluster.
pub struct Cluster {
    pub members: Vec<Member>,
    _folder: TempDir,
}

fn free_address() -> String {
    // Any free port; no other program is likely to take it before the server does.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// An agent for the requests of tests. Over TLS it is the client of `certificates`.
fn agent(certificates: Option<&Certificates>) -> Agent {
    let config = Agent::config_builder()
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(5)));
    let Some(certificates) = certificates else {
        return config.build().new_agent();
    };
    let read = |name: &str| fs::read(certificates.path(name)).unwrap();
    let certificate = |name: &str| Certificate::from_pem(&read(name)).unwrap();
    let key = PrivateKey::from_pem(&read("client.key")).unwrap();
    let identity = ClientCert::new_with_certs(&[certificate("client.pem")], key);
    let tls = TlsConfig::builder()
        .root_certs([certificate("ca.pem")].into())
        .client_cert(Some(identity))
        .unversioned_rustls_crypto_provider(rustls::crypto::ring::default_provider().into());
    config.tls_config(tls.build()).build().new_agent()
}

impl Cluster {
    /// Starts `count` servers and waits until they serve.
    pub fn start(count: usize) -> Self {
        Self::start_within(count, None)
    }

    /// Starts a server that speaks TLS with clients that the authority `ca` has signed.
    pub fn start_encrypted(certificates: &Certificates) -> Self {
        Self::start_within(1, Some(certificates))
    }

    fn start_within(count: usize, certificates: Option<&Certificates>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let peers: Vec<_> = (0..count)
            .map(|index| (format!("m{index}"), free_address()))
            .collect();
        let initial: Vec<_> = peers
            .iter()
            .map(|(name, peer)| format!("{name}=http://{peer}"))
            .collect();
        let members = peers.into_iter().map(|(name, peer)| Member {
            endpoint: free_address(),
            folder: folder.path().join(&name),
            name,
            peer,
            initial: initial.join(","),
            tls: certificates.map(|certificates| certificates.path("")),
            agent: agent(certificates),
            child: None,
        });
        let mut cluster = Self {
            members: members.collect(),
            _folder: folder,
        };
        cluster.members.iter_mut().for_each(Member::start);
        cluster.members.iter().for_each(Member::wait_until_ready);
        cluster
    }

    /// The address of the key `name`.
    pub fn address(&self, name: &str) -> String {
        let endpoints: Vec<_> = self
            .members
            .iter()
            .map(|member| &*member.endpoint)
            .collect();
        format!("etcd://{}/{name}", endpoints.join(","))
    }
}

impl Member {
    /// Starts the server, for the first time or again.
    pub fn start(&mut self) {
        fs::create_dir_all(&self.folder).unwrap();
        let log = File::create(self.folder.join("log")).unwrap();
        let (client, peer) = (self.url(), format!("http://{}", self.peer));
        let mut command = Command::new("etcd");
        if let Some(folder) = &self.tls {
            let options = [
                ("--cert-file", "server.pem"),
                ("--key-file", "server.key"),
                ("--trusted-ca-file", "ca.pem"),
            ];
            for (option, name) in options {
                command.arg(option).arg(folder.join(name));
            }
            command.arg("--client-cert-auth");
        }
        let child = command
            .args(["--name", &self.name, "--data-dir"])
            .arg(self.folder.join("data"))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &self.initial])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("etcd can be started"));
    }

    fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.endpoint)
    }

    /// Kills the server as a crash would.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the server runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Whether the server was started and not killed.
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Removes the data of the server.
    pub fn forget(&self) {
        fs::remove_dir_all(self.folder.join("data")).unwrap();
    }

    /// Stops the server like a machine that hangs. No thread of the server runs when the call returns.
    pub fn pause(&self) {
        let process = self.process();
        kill_process(process, Signal::STOP).unwrap();
        // The signal is sent before the last thread has stopped.
        waitpid(Some(process), WaitOptions::UNTRACED).unwrap();
    }

    /// Lets a server that was stopped go on.
    pub fn go_on(&self) {
        kill_process(self.process(), Signal::CONT).unwrap();
    }

    fn process(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("the server runs"))
    }

    /// The answer to a request, if it succeeds.
    pub fn post(&self, path: &str, request: &str) -> Option<String> {
        let post = self.agent.post(format!("{}{path}", self.url()));
        post.send(request).ok()?.body_mut().read_to_string().ok()
    }

    /// Makes the server require a password from now on: `secret`, of the user `root`.
    pub fn enable_users(&self) {
        for (path, request) in [
            (
                "/v3/auth/user/add",
                r#"{"name":"root","password":"secret"}"#,
            ),
            ("/v3/auth/role/add", r#"{"name":"root"}"#),
            ("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
            ("/v3/auth/enable", "{}"),
        ] {
            let done = self.post(path, request);
            assert!(done.is_some(), "{path} is done");
        }
    }

    pub fn wait_until_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.post("/v3/kv/range", r#"{"key":"eA=="}"#).is_none() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap();
            assert!(Instant::now() < deadline, "etcd serves: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether this server is the leader.
    pub fn leads(&self) -> bool {
        let status = self
            .post("/v3/maintenance/status", "{}")
            .unwrap_or_default();
        let field = |name: &str| {
            let at = status.find(&format!("\"{name}\":\""))? + name.len() + 4;
            status[at..].split('"').next()
        };
        field("leader").is_some() && field("leader") == field("member_id")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The server may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
