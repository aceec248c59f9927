//! Processes that run out of file descriptors: both sides are told so, others continue, and the condition passes.
//!
//! The limit belongs to a process, so the test binary runs itself again as the side with few descriptors.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stonecast_fabric::{ConnectionEvent, Device, Park, QueuePair};
use stonecast_fabric_shm::{Log, ShmOptions};

use crate::node::Node;

const PART: &str = "STONECAST_TEST_DESCRIPTORS";
const ADDRESS: &str = "STONECAST_TEST_ADDRESS";
/// File descriptors of the side that has few: enough for some connections, and too few for [`CONNECTIONS_MAX`].
const FILES: u64 = 60;
/// No process with so few descriptors gets so many connections.
const CONNECTIONS_MAX: usize = 40;

struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    fn start(part: &str, address: &str) -> Self {
        let mut command =
            Command::new(std::env::current_exe().expect("the test binary has a path"));
        command
            .args([
                "--exact",
                "descriptors::plays_its_part",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(PART, part)
            .env(ADDRESS, address)
            .stdout(Stdio::piped());
        Self(command.spawn().expect("the test binary runs again"))
    }

    /// Seconds of processor time used so far.
    fn processor_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))
            .expect("the process runs");
        let fields: Vec<&str> = stat
            .rsplit(") ")
            .next()
            .expect("a line")
            .split(' ')
            .collect();
        let ticks = |index: usize| fields[index].parse::<f64>().expect("a number");
        (ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64
    }
}

/// The part of another process, when this binary is started as one.
#[test]
fn plays_its_part() {
    let (Some(part), Ok(address)) = (std::env::var_os(PART), std::env::var(ADDRESS)) else {
        return;
    };
    let few = Rlimit {
        current: Some(FILES),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, few).expect("a lower limit is always allowed");
    match part.to_str().expect("text") {
        "server" => serve(&address),
        _ => call_until_refused(&address),
    }
}

/// Accepts every peer for as long as it can, until it is killed.
fn serve(address: &str) {
    let mut node = Node::new(ShmOptions {
        log: Log::new(|line| println!("said: {line}")),
        ..ShmOptions::default()
    });
    node.device.listen(address).expect("the address is free");
    println!("listens");
    loop {
        node.pump();
        for event in std::mem::take(&mut node.events) {
            match event {
                ConnectionEvent::Request { request, .. } => {
                    let qp = node.queue_pair(None);
                    if node.device.accept(request, qp, b"").is_err() {
                        let _ = node.device.destroy_queue_pair(qp);
                    }
                }
                ConnectionEvent::Disconnected { qp, .. } => {
                    let _ = node.device.destroy_queue_pair(qp);
                }
                _ => {}
            }
        }
        node.device.park(1_000_000_000);
    }
}

/// Connects until that fails, prints the reason, and continues when one connection has ended.
fn call_until_refused(address: &str) {
    let mut node = Node::new(ShmOptions::default());
    let (mut connected, reason) = fill(&mut node, address);
    println!("refused: {reason}");
    let last = connected.pop().expect("some were connected");
    node.device
        .destroy_queue_pair(last)
        .expect("the queue pair exists");
    call(&mut node, address).expect("there are descriptors again");
    println!("connected again");
}

/// Connects until a connection is refused, and returns the reason.
fn fill(node: &mut Node, address: &str) -> (Vec<QueuePair>, String) {
    let mut connected = Vec::new();
    loop {
        match call(node, address) {
            Ok(qp) => connected.push(qp),
            Err(reason) => return (connected, reason),
        }
        assert!(
            connected.len() < CONNECTIONS_MAX,
            "descriptors did not run out"
        );
    }
}

fn call(node: &mut Node, address: &str) -> Result<QueuePair, String> {
    let qp = node.queue_pair(None);
    node.device
        .connect(qp, address, b"")
        .expect("connecting starts");
    let answered = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Established { qp: of, .. } | ConnectionEvent::Rejected { qp: of, .. } if *of == qp);
    match node.event(answered) {
        ConnectionEvent::Rejected { reason, .. } => {
            node.device
                .destroy_queue_pair(qp)
                .expect("the queue pair is not connected");
            Err(reason)
        }
        _ => Ok(qp),
    }
}

/// Needs the spare descriptor, the reading of truncated packets, and the pause: without them the caller waits forever,
/// or is told of a malformed packet, or the server's thread asks the system again and again.
#[test]
fn a_server_without_descriptors_reports_it_serves_the_others_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("shm:{}", folder.path().join("socket").display());
    let mut server = Peer::start("server", &address);
    let mut lines = BufReader::new(server.0.stdout.take().expect("piped")).lines();
    let mut hear = |word: &str| loop {
        let line = lines.next().expect("the process runs").expect("text");
        if line.contains(word) {
            return line;
        }
    };
    hear("listens");
    let mut node = Node::new(ShmOptions::default());
    let (mut connected, reason) = fill(&mut node, &address);
    assert!(
        reason.contains(&format!(
            "process {} has no file descriptors left (its limit is {FILES})",
            server.0.id()
        )) && reason.contains("ulimit -n"),
        "{reason}"
    );
    assert!(hear("said: ").contains("connections are refused"));
    // Repeated, to hit each stage of a handshake.
    for _ in 0..20 {
        let reason = call(&mut node, &address).expect_err("there are no descriptors");
        assert!(reason.contains("no file descriptors left"), "{reason}");
    }
    let before = server.processor_seconds();
    std::thread::sleep(Duration::from_secs(1));
    let used = server.processor_seconds() - before;
    assert!(used < 0.5, "{used} s of a second");

    let gone = connected.pop().expect("some were connected");
    node.device
        .destroy_queue_pair(gone)
        .expect("the queue pair exists");
    let room = (0..5_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        call(&mut node, &address).is_ok()
    });
    assert!(room, "there are descriptors again");
}

/// Needs the check before the call and the explanation.
#[test]
fn a_client_without_descriptors_reports_it_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("shm:{}", folder.path().join("socket").display());
    let mut server = Node::new(ShmOptions::default());
    server.device.listen(&address).unwrap();
    let mut client = Peer::start("client", &address);
    let mut stdout = client.0.stdout.take().expect("piped");
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    while client.0.try_wait().expect("a child").is_none() {
        server.pump();
        for event in std::mem::take(&mut server.events) {
            if let ConnectionEvent::Request { request, .. } = event {
                let qp = server.queue_pair(None);
                // A request that was abandoned meanwhile needs no answer.
                let _ = server.device.accept(request, qp, b"");
            }
        }
        server.device.park(10_000_000);
    }
    let said = said.join().expect("no panic").expect("text");
    assert!(
        said.contains(&format!(
            "refused: process {} has no file descriptors left",
            client.0.id()
        )),
        "{said}"
    );
    assert!(said.contains("connected again"), "{said}");
}
