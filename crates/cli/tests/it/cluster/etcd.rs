//! An etcd, for the stories of clusters whose configuration is in one.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::Place;

/// An etcd on the loopback, which keeps the configuration in the place of files.
pub struct Etcd {
    process: Child,
    endpoint: String,
    _folder: Place,
}

impl Etcd {
    /// `None`: there is none on this machine.
    pub fn start() -> Option<Self> {
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("an address").to_string()
        };
        let (endpoint, peer, folder) = (free(), free(), Place::in_volatile_memory());
        let (client_url, peer_url) = (format!("http://{endpoint}"), format!("http://{peer}"));
        let mut command = Command::new("etcd");
        command
            .args([
                "--name",
                "one",
                "--initial-cluster",
                &format!("one={peer_url}"),
            ])
            .args([
                "--listen-client-urls",
                &client_url,
                "--advertise-client-urls",
                &client_url,
            ])
            .args([
                "--listen-peer-urls",
                &peer_url,
                "--initial-advertise-peer-urls",
                &peer_url,
            ])
            .arg("--unsafe-no-fsync")
            .arg("--data-dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().ok()?;
        let end = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&endpoint).is_err() {
            assert!(Instant::now() < end, "etcd did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self {
            process,
            endpoint,
            _folder: folder,
        })
    }

    /// The address of a configuration.
    pub fn address(&self) -> String {
        format!("etcd://{}/stonecast", self.endpoint)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
