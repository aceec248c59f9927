//! An etcd, for the stories of clusters whose configuration is in one.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, http_get};

/// An etcd on the loopback, which keeps the configuration in the place of files.
pub struct Etcd {
    process: Child,
    endpoint: String,
    peer: String,
    folder: Place,
}

impl Etcd {
    /// `None`: there is none on this machine.
    pub fn start() -> Option<Self> {
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("an address").to_string()
        };
        let (endpoint, peer, folder) = (free(), free(), Place::in_volatile_memory());
        let etcd = Self {
            process: launch(&endpoint, &peer, &folder)?,
            endpoint,
            peer,
            folder,
        };
        etcd.wait_until_ready();
        Some(etcd)
    }

    fn wait_until_ready(&self) {
        let end = Instant::now() + Duration::from_secs(30);
        let address = self.endpoint.parse().expect("an address");
        // An etcd without a leader answers, and is not healthy.
        while TcpStream::connect(address).is_err() || http_get(address, "/health").0 != 200 {
            assert!(Instant::now() < end, "etcd did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the process like a machine that hangs: connections stay open, and nothing is answered.
    pub fn stop(&self) {
        let process = Pid::from_child(&self.process);
        kill_process(process, Signal::STOP).expect("it runs");
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Starts an etcd that was killed, with its data.
    pub fn start_again(&mut self) {
        let process = launch(&self.endpoint, &self.peer, &self.folder);
        self.process = process.expect("it was started before");
        self.wait_until_ready();
    }

    /// The address of a configuration.
    pub fn address(&self) -> String {
        format!("etcd://{}/stonecast", self.endpoint)
    }
}

fn launch(endpoint: &str, peer: &str, folder: &Place) -> Option<Child> {
    let (client_url, peer_url) = (format!("http://{endpoint}"), format!("http://{peer}"));
    let mut command = Command::new("etcd");
    command
        .args(["--name", "one"])
        .args(["--initial-cluster", &format!("one={peer_url}")])
        .args(["--listen-client-urls", &client_url])
        .args(["--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url])
        .args(["--initial-advertise-peer-urls", &peer_url])
        .arg("--unsafe-no-fsync")
        .arg("--data-dir")
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().ok()
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
