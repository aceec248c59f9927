//! Devices treated as ones without memory windows: queue pairs with windows have protection domains of their own.

use std::rc::Rc;

use stonecast_fabric::{
    Access, Device, DeviceError, LocalSpan, QueuePairOptions, ReceiveQueue, ReceiveRequest,
    RemoteAddress, SharedReceiveQueueOptions, Status,
};
use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};

use crate::device::devices_or_note;
use crate::files::{invalidate, made_for_windows, read};
use crate::pairs::{Client, connect, queue_pair_options};
use crate::world::{free_address, options};

const SIZE: u64 = 65_536;

fn device(name: &str) -> Rc<dyn Device> {
    VerbsDevice::open(VerbsOptions {
        without_windows: true,
        ..options(name)
    })
    .expect("the device that is named")
}

/// A server, and clients of it, each with windows of its own.
fn server_and_clients(names: &[String], count: usize) -> (Rc<dyn Device>, Vec<Client>) {
    let server = device(names.last().expect("there is a device"));
    let (cq, address) = (
        server
            .create_completion_queue(64)
            .expect("a completion queue"),
        free_address(),
    );
    server.listen(&address).expect("a free address");
    let clients = (0..count)
        .map(|_| connect(device(&names[0]), &*server, made_for_windows(cq), &address))
        .collect();
    (server, clients)
}

#[test]
fn requests_that_protection_domains_cannot_serve_are_refused_with_the_reason() {
    let Some(names) = devices_or_note(
        "requests_that_protection_domains_cannot_serve_are_refused_with_the_reason",
    ) else {
        return;
    };
    let server = device(&names[0]);
    assert!(server.capabilities().memory_windows && server.capabilities().protection_domains);
    let cq = server
        .create_completion_queue(64)
        .expect("a completion queue");
    let region = server.allocate(SIZE, Access::NONE).expect("memory");
    let plain = server
        .create_queue_pair(queue_pair_options(cq, None))
        .expect("a queue pair");
    let refused = server.bind_window(plain, region, 0, SIZE, Access::REMOTE_READ);
    assert!(
        matches!(refused, Err(DeviceError::Malformed { .. })),
        "{refused:?}"
    );
    let srq = SharedReceiveQueueOptions {
        capacity: 4,
        multi_packet: None,
        in_order: false,
    };
    let srq = server
        .create_shared_receive_queue(srq)
        .expect("a shared receive queue");
    let shared = QueuePairOptions {
        windows: true,
        ..queue_pair_options(cq, Some(srq))
    };
    let refused = server
        .create_queue_pair(shared)
        .expect_err("its buffers belong to another protection domain")
        .to_string();
    assert!(
        refused.contains("memory windows") && refused.contains("sharing a receive queue"),
        "{refused}"
    );
    server
        .create_queue_pair(queue_pair_options(cq, Some(srq)))
        .expect("a queue pair without windows shares the queue");
}

/// Needs the protection domain of each queue pair: in a common domain every key would open the bytes to every client.
#[test]
fn each_client_opens_its_bytes_with_its_own_key_until_that_ends() {
    let Some(names) =
        devices_or_note("each_client_opens_its_bytes_with_its_own_key_until_that_ends")
    else {
        return;
    };
    let (server, clients) = server_and_clients(&names, 3);
    let region = server.allocate(SIZE, Access::NONE).expect("memory");
    server.memory(region).write(4096, &[7; 64]);
    let bind = |client: &Client| {
        server
            .bind_window(client.there, region, 4096, 100, Access::REMOTE_READ)
            .expect("a window")
    };
    let keys: Vec<_> = clients.iter().map(bind).collect();
    let at = |rkey| RemoteAddress {
        address: region.address + 4096,
        rkey,
    };
    for (client, &key) in clients.iter().zip(&keys) {
        assert_eq!(read(client, at(key)), (Status::Success, vec![7; 64]));
    }
    assert_eq!(
        read(&clients[0], at(keys[1])).0,
        Status::RemoteAccess,
        "a key of another client"
    );
    assert_eq!(
        read(&clients[1], at(keys[1])).0,
        Status::Success,
        "its owner is unharmed"
    );
    invalidate(&*server, keys[1]);
    assert_eq!(
        read(&clients[1], at(keys[1])).0,
        Status::RemoteAccess,
        "a key that has ended opens nothing"
    );
    assert_eq!(
        read(&clients[2], at(keys[2])).0,
        Status::Success,
        "keys of others stay valid"
    );
    let refused = server.deregister(region);
    assert!(
        matches!(refused, Err(DeviceError::Malformed { .. })),
        "{refused:?}"
    );
    for client in &clients {
        server
            .destroy_queue_pair(client.there)
            .expect("the queue pair exists");
    }
    server
        .deregister(region)
        .expect("the windows ended with their queue pairs");
}

/// Needs a protection domain apart from that of the regions' keys. The contract leaves this open; devices of this crate
/// guarantee it.
#[test]
fn a_key_of_a_region_opens_nothing_to_a_client_with_windows() {
    let Some(names) = devices_or_note("a_key_of_a_region_opens_nothing_to_a_client_with_windows")
    else {
        return;
    };
    let (server, clients) = server_and_clients(&names, 1);
    let region = server.allocate(SIZE, Access::REMOTE_READ).expect("memory");
    let remote = RemoteAddress {
        address: region.address,
        rkey: region.rkey,
    };
    assert_eq!(read(&clients[0], remote).0, Status::RemoteAccess);
}

/// The bytes that the kernel has pinned for this process.
fn pinned() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel reports");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmPin:"))
        .expect("the kernel reports the pinned memory");
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .expect("a number")
        * 1024
}

/// Needs the end of a queue pair to end the registrations in its protection domain, of receive buffers and of windows.
#[test]
fn memory_is_pinned_for_a_queue_pair_with_windows_as_long_as_the_queue_pair_lives() {
    let Some(names) = devices_or_note(
        "memory_is_pinned_for_a_queue_pair_with_windows_as_long_as_the_queue_pair_lives",
    ) else {
        return;
    };
    let server = device(&names[0]);
    let cq = server
        .create_completion_queue(64)
        .expect("a completion queue");
    let size = 16 << 20;
    let [received, opened] = [(); 2].map(|()| server.allocate(size, Access::NONE).expect("memory"));
    let local = LocalSpan {
        region: received,
        offset: 0,
        size: 64,
    };
    let before = pinned();
    let mut most = 0;
    for round in 0..16 {
        let qp = server
            .create_queue_pair(made_for_windows(cq))
            .expect("a queue pair");
        server
            .post_receive(
                ReceiveQueue::Own(qp),
                &[ReceiveRequest {
                    wr_id: round,
                    local,
                }],
            )
            .expect("room");
        server
            .bind_window(qp, opened, 0, size, Access::REMOTE_READ)
            .expect("a window");
        most = most.max(pinned());
        server
            .destroy_queue_pair(qp)
            .expect("the queue pair exists");
    }
    // Concurrent tests pin little.
    assert!(
        most >= before + 3 * size / 2,
        "{most} bytes of {before} before: pinned in the protection domain, too"
    );
    assert!(
        pinned() < before + size / 2,
        "{} bytes stay pinned of {before} before",
        pinned()
    );
}
