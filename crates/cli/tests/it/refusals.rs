//! The refusals of a server, and their messages.

use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use stonecast_fabric::{BusyPoll, ConnectionEvent, Device, Port, QueuePair, QueuePairOptions};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::limits::PROTOCOL_VERSION;

use crate::support::{Place, Server, stonecast};

const OPTIONS: [&str; 4] = ["--durability", "process", "--capacity", "64MiB"];

#[test]
fn a_second_server_on_one_pool_is_refused_and_the_first_continues() {
    let place = Place::in_volatile_memory();
    let mut first = Server::start(&place.pool(), OPTIONS);
    let elsewhere = format!("shm:{}/other", place.path().display());
    let message = Server::refused(&place.pool(), ["--listen", &elsewhere]);
    assert!(
        message.contains("in use") && message.contains(&first.process().to_string()),
        "{message}"
    );
    first.client(&["put", "k", "v"]).text();
    first.kill();
    assert_eq!(
        Server::start(&place.pool(), OPTIONS)
            .client(&["get", "k"])
            .text(),
        "v",
        "a dead server holds nothing"
    );
}

#[test]
fn volatile_memory_cannot_promise_to_survive_power_loss() {
    let place = Place::in_volatile_memory();
    for arguments in [&[][..], &["--durability", "power"]] {
        let message = Server::refused(&place.pool(), arguments);
        assert!(
            message.contains("cannot promise --durability power")
                && message.contains("--durability process"),
            "{message}"
        );
    }
    Server::start(&place.pool(), OPTIONS);
}

#[test]
fn a_pool_keeps_the_durability_that_it_was_created_with() {
    let place = Place::on_disk();
    Server::start(&place.pool(), OPTIONS).stop();
    let mut server = Server::start(&place.pool(), [] as [&str; 0]);
    assert_eq!(
        server.client(&["stat", "--json"]).json()["durability"],
        "process"
    );
    server.stop();
    let message = Server::refused(&place.pool(), ["--durability", "power"]);
    assert!(
        message.contains("process") && message.contains("power"),
        "{message}"
    );
}

/// Needs the comparison of homes when a pool is opened, and needs the recovery of a copy to trust no checkpoint.
#[test]
fn a_pool_that_was_copied_under_a_running_server_is_refused_unless_the_copy_is_accepted() {
    let place = Place::on_disk();
    let mut first = Server::start(&place.pool(), ["--capacity", "64MiB"]);
    first.client(&["put", "closed", "1"]).text();
    first.stop();
    let mut second = Server::start(&place.pool(), [] as [&str; 0]);
    second.client(&["put", "served", "2"]).text();
    let copied = place.path().join("copied");
    std::fs::create_dir(&copied).unwrap();
    for name in ["header", "log", "checkpoint"] {
        std::fs::copy(place.pool().join(name), copied.join(name)).unwrap();
    }
    second.client(&["put", "later", "3"]).text();
    second.stop();
    let message = Server::refused(&copied, [] as [&str; 0]);
    assert!(
        message.contains("copied while it was served") && message.contains("--accept-copy"),
        "{message}"
    );
    let mut accepted = Server::start(&copied, ["--accept-copy"]);
    assert_eq!(accepted.client(&["get", "closed"]).text(), "1");
    assert_eq!(accepted.client(&["get", "served"]).text(), "2");
    accepted.client(&["get", "later"]).refusal(3);
    accepted.stop();
    let copy = Server::start(&copied, [] as [&str; 0]);
    assert_eq!(
        copy.client(&["get", "served"]).text(),
        "2",
        "it is a pool like any other now"
    );
}

#[test]
fn an_impossible_geometry_is_refused() {
    let place = Place::in_volatile_memory();
    for arguments in [
        ["--segment-size", "3MiB"],
        ["--segment-size", "1KiB"],
        ["--capacity", "512KiB"],
    ] {
        let message = Server::refused(
            &place.pool(),
            ["--durability", "process"].iter().chain(&arguments),
        );
        assert!(message.contains("segment"), "{message}");
    }
    assert!(
        !place.pool().join("header").exists(),
        "a refusal creates no pool"
    );
}

#[test]
fn a_text_that_is_no_address_is_refused_with_the_forms_of_an_address() {
    for (text, reason) in [
        ("redis://localhost", "an address is shm:PATH"),
        ("/run/stonecast", "an address is shm:PATH"),
        ("", "an address is shm:PATH"),
        ("shm:", "shm: needs a path after it"),
        ("cluster:", "use file:PATH, or etcd://HOST:PORT"),
        ("file:/var/lib/blue", "write cluster:file:/var/lib/blue"),
    ] {
        let output = stonecast(["get", "k", "--connect", text]);
        let said = &output.stderr;
        assert_eq!(output.code, Some(2), "{text:?}: {said}");
        for fact in [&format!("'{text}'"), "--connect", reason] {
            assert!(said.contains(fact), "{text:?}, {fact}: {said}");
        }
    }
}

/// The server accepts the client, but greets in another version.
#[test]
fn a_server_of_another_version_is_refused_with_both_versions() {
    let place = Place::in_volatile_memory();
    let address = format!("shm:{}/socket", place.path().display());
    let version = PROTOCOL_VERSION + 1;
    let (listening, is_listening) = mpsc::channel();
    let (over, is_over) = mpsc::channel::<()>();
    let listen = address.clone();
    let server = thread::spawn(move || {
        let (device, _executor, port, qp) = endpoint();
        device.listen(&listen).expect("nobody listens there");
        listening.send(()).expect("the test waits");
        let mut welcome = greeting(version);
        // The length of this version's welcome, so that only the number tells the two apart.
        welcome.resize(80, 0);
        let mut qp = Some(qp);
        while is_over.recv_timeout(Duration::from_millis(1)) == Err(mpsc::RecvTimeoutError::Timeout)
        {
            while let Some(event) = device.poll_connection() {
                if let (ConnectionEvent::Request { request, .. }, Some(qp)) = (event, qp.take()) {
                    device.accept(request, qp, &welcome).expect("a request");
                }
            }
        }
        drop(port);
    });
    is_listening.recv().expect("the server lives");
    let output = stonecast(["get", "k", "--connect", &address]);
    drop(over);
    server.join().expect("the server does not panic");
    let said = output.refusal(1);
    for fact in [
        &format!("the server speaks protocol version {version} of the KV store"),
        &format!("the client version {PROTOCOL_VERSION}"),
        "use the same version of stonecast on both sides",
        &address,
    ] {
        assert!(said.contains(fact), "{fact}: {said}");
    }
}

/// Needs the version in the server's check of the first message.
#[test]
fn a_client_of_another_protocol_version_is_refused_and_told_why() {
    let place = Place::in_volatile_memory();
    let server = Server::start(&place.pool(), OPTIONS);
    let current = knock(&server, PROTOCOL_VERSION);
    assert_eq!(current, None, "this version is let in");
    for version in [PROTOCOL_VERSION + 1, 0, u32::MAX] {
        let reason = knock(&server, version).expect("another version is refused");
        assert!(
            reason.contains("version") && reason.contains(&version.to_string()),
            "{reason}"
        );
    }
    server.client(&["put", "k", "v"]).text();
}

/// Requests a connection as a client of `version` does. Returns the reason of a refusal.
fn knock(server: &Server, version: u32) -> Option<String> {
    let (device, executor, port, qp) = endpoint();
    let mut hello = greeting(version);
    hello.resize(16, 0);
    device
        .connect(qp, &server.address(), &hello)
        .expect("the server listens");
    executor.block_on(async {
        loop {
            port.activity().await;
            match port.take_event() {
                Some(ConnectionEvent::Established { .. }) => return None,
                Some(ConnectionEvent::Rejected { reason, .. }) => return Some(reason),
                _ => {}
            }
        }
    })
}

/// The first bytes of both sides, in every version: the protocol, then the version.
fn greeting(version: u32) -> Vec<u8> {
    let mut said = b"stonecdk".to_vec();
    said.extend_from_slice(&version.to_le_bytes());
    said
}

/// A device of shared memory, with a loop that drives its port, and one queue pair.
fn endpoint() -> (Rc<ShmDevice>, BusyPoll, Rc<Port>, QueuePair) {
    let device = ShmDevice::new(ShmOptions::default()).expect("a device");
    let executor = BusyPoll::new(device.clone(), 20_000);
    let port = Rc::new(Port::new(device.clone(), 64).expect("a port"));
    executor.add_port(&port);
    let qp = device.create_queue_pair(QueuePairOptions {
        send_cq: port.send_cq(),
        receive_cq: port.receive_cq(),
        shared_receive_queue: None,
        windows: false,
        send_capacity: 16,
        receive_capacity: 16,
        rnr_retry_count: 1000,
        rnr_retry_delay_ns: 1_000_000,
    });
    let qp = qp.expect("a queue pair");
    (device, executor, port, qp)
}
