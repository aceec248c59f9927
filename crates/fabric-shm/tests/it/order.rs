//! Order of effects and rights where the optimizations of the provider could break them: regions that are already
//! mapped, batches, reads in the call.

use std::task::{Context, Poll, Waker};

use stonecast_fabric::{
    Access, ConnectionEvent, Device, Operation, QueuePair, ReadInto, ReceiveQueue, RemoteAddress,
    Rkey, Status, WorkRequest,
};
use stonecast_fabric_shm::ShmOptions;

use crate::node::Node;

struct Pair {
    _folder: tempfile::TempDir,
    server: Node,
    client: Node,
    /// The server's queue pairs and the client's, connected in this order.
    theirs: Vec<QueuePair>,
    ours: Vec<QueuePair>,
}

fn pair(connections: usize) -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("shm:{}", folder.path().join("socket").display());
    let (mut server, mut client) = (
        Node::new(ShmOptions::default()),
        Node::new(ShmOptions::default()),
    );
    server.device.listen(&address).unwrap();
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..connections {
        let (server_qp, client_qp) = (server.queue_pair(None), client.queue_pair(None));
        client.device.connect(client_qp, &address, b"").unwrap();
        server.answer(server_qp);
        client.event(|event| matches!(event, ConnectionEvent::Established { .. }));
        theirs.push(server_qp);
        ours.push(client_qp);
    }
    Pair {
        _folder: folder,
        server,
        client,
        theirs,
        ours,
    }
}

impl Pair {
    fn remote(&self, rkey: Rkey, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.server.buffer.address + offset,
            rkey,
        }
    }

    /// The status of a READ of 8 bytes.
    fn read(&mut self, qp: QueuePair, rkey: Rkey) -> Status {
        let operation = Operation::Read {
            local: self.client.local(0, 8),
            remote: self.remote(rkey, 0),
        };
        self.client.post(qp, operation, true);
        self.client.completion().status
    }

    fn read_now(&self, rkey: Rkey, offset: u64) -> Option<(Status, u64)> {
        let mut into = [0; 8];
        let remote = self.remote(rkey, offset);
        let status = self.client.device.read_now(
            self.ours[0],
            &mut [ReadInto {
                remote,
                into: &mut into,
            }],
        )?;
        Some((status, u64::from_le_bytes(into)))
    }
}

/// Needs the check of the taken entries, in `read_now` and behind it.
#[test]
fn a_read_in_the_call_waits_for_the_payload_of_an_earlier_send() {
    let mut pair = pair(1);
    let rkey = pair.server.buffer.rkey;
    assert_eq!(
        pair.read(pair.ours[0], rkey),
        Status::Success,
        "the region is mapped afterwards"
    );
    for round in 1..=100 {
        pair.client.set_word(0, round);
        pair.client.post(
            pair.ours[0],
            Operation::Send {
                local: pair.client.local(0, 8),
            },
            false,
        );
        assert_eq!(
            pair.read_now(rkey, 512),
            None,
            "the payload is not placed yet"
        );
        pair.server
            .receive(ReceiveQueue::Own(pair.theirs[0]), round, 512, 8);
        assert_eq!(pair.server.completion().wr_id, round);
        assert_eq!(pair.read_now(rkey, 512), Some((Status::Success, round)));
        pair.client.pump();
    }
}

/// Requests behind a failing request, in the same batch and later, are never executed, even while the failure waits for
/// earlier requests. Needs `is_halted`.
#[test]
fn nothing_behind_a_failing_request_of_a_batch_is_executed() {
    for waits in [false, true] {
        let mut pair = pair(1);
        let (rkey, qp) = (pair.server.buffer.rkey, pair.ours[0]);
        let local = pair.client.local(0, 8);
        // This READ maps the region, so that everything later is executed in the post.
        pair.client.post(
            qp,
            Operation::Write {
                local,
                remote: pair.remote(rkey, 0),
            },
            true,
        );
        assert_eq!(pair.client.completion().status, Status::Success);
        pair.client.set_word(0, 7);
        let immediate = Operation::WriteWithImmediate {
            local,
            remote: pair.remote(rkey, 0),
            immediate: 1,
        };
        let failing = Operation::Write {
            local,
            remote: pair.remote(Rkey(!0), 0),
        };
        let write = Operation::Write {
            local,
            remote: pair.remote(rkey, 64),
        };
        let operations = if waits {
            vec![immediate, failing, write]
        } else {
            vec![failing, write]
        };
        let request = |operation| WorkRequest {
            wr_id: 1,
            operation,
            signalled: true,
            fence: false,
        };
        let batch: Vec<_> = operations.iter().copied().map(request).collect();
        pair.client.device.post_send(qp, &batch).unwrap();
        pair.client.post(qp, write, true);
        pair.client.pump();
        assert_eq!(
            pair.client.completions.is_empty(),
            waits,
            "a failure is reported in posting order"
        );
        if waits {
            pair.server
                .receive(ReceiveQueue::Own(pair.theirs[0]), 0, 1024, 8);
            pair.server.completion();
            assert_eq!(pair.client.completion().status, Status::Success);
        }
        let statuses: Vec<_> = (0..3).map(|_| pair.client.completion().status).collect();
        assert_eq!(
            statuses,
            [
                Status::RemoteAccess,
                Status::WorkRequestFlushed,
                Status::WorkRequestFlushed
            ]
        );
        assert_eq!(pair.server.word(64), 0);
    }
}

/// A window of another queue pair stays closed even if the region is mapped through a window of this queue pair.
#[test]
fn a_window_of_another_queue_pair_stays_closed_when_its_region_is_mapped() {
    let mut pair = pair(2);
    let buffer = pair.server.buffer;
    let window = |qp| {
        pair.server
            .device
            .bind_window(qp, buffer, 0, 64, Access::REMOTE_READ)
            .unwrap()
    };
    let (first, second) = (window(pair.theirs[0]), window(pair.theirs[1]));
    assert_eq!(pair.read(pair.ours[0], first), Status::Success);
    assert_eq!(pair.read(pair.ours[1], second), Status::Success);
    assert_eq!(pair.read_now(second, 0), None);
    assert_eq!(pair.read(pair.ours[0], second), Status::RemoteAccess);
}

/// The gap between two regions belongs to no region, and a key that was mapped opens nothing beyond itself.
#[test]
fn a_read_in_the_call_stays_within_the_bytes_of_its_key() {
    let mut pair = pair(1);
    let buffer = pair.server.buffer;
    let window = pair
        .server
        .device
        .bind_window(pair.theirs[0], buffer, 0, 64, Access::REMOTE_READ)
        .unwrap();
    assert_eq!(pair.read(pair.ours[0], window), Status::Success);
    assert_eq!(pair.read_now(window, 56), Some((Status::Success, 0)));
    for offset in [
        57,
        64,
        1 << 20,
        0u64.wrapping_sub(8),
        0u64.wrapping_sub(buffer.address),
        u64::MAX - buffer.address,
    ] {
        let mut into = [0; 8];
        let remote = RemoteAddress {
            address: buffer.address.wrapping_add(offset),
            rkey: window,
        };
        let read = &mut [ReadInto {
            remote,
            into: &mut into,
        }];
        assert_eq!(
            pair.client.device.read_now(pair.ours[0], read),
            None,
            "offset {offset:#x}"
        );
    }
}

/// Needs `revoke_windows`: without it the windows would hold the region for good.
#[test]
fn windows_end_with_their_queue_pair() {
    let pair = pair(1);
    let device = &pair.server.device;
    let region = device.allocate(4096, Access::NONE).unwrap();
    for _ in 0..3 {
        device
            .bind_window(pair.theirs[0], region, 0, 64, Access::REMOTE_WRITE)
            .unwrap();
    }
    device.destroy_queue_pair(pair.theirs[0]).unwrap();
    let revoked = device.poll_invalidate(region.rkey, &mut Context::from_waker(Waker::noop()));
    assert!(matches!(revoked, Poll::Ready(Ok(()))));
    device.deregister(region).unwrap();
}
