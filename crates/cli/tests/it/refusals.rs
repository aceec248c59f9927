//! The refusals of a server, and their messages.

use std::rc::Rc;

use stonecast_fabric::{BusyPoll, ConnectionEvent, Device, Port, QueuePairOptions};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::limits::PROTOCOL_VERSION;

use crate::support::{Place, Server};

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
    // The first message: the protocol, then the version.
    let mut hello = *b"stonecdk\0\0\0\0\0\0\0\0";
    hello[8..12].copy_from_slice(&version.to_le_bytes());
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
