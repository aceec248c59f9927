//! A peer that is stopped in the middle of an operation: it lives, so its memory is not taken away under it.

use std::task::{Context, Poll, Waker};

use rustix::process::Signal;
use stonecast_fabric::{
    Access, Device, DeviceError, DisconnectCause, MultiPacketOptions, Opcode, Operation, QueuePair,
    ReceiveQueue, SharedReceiveQueueOptions, Status,
};

use super::end::{End, place};
use super::{Peer, Stage, stage};
use crate::step::testing::{Fate, plan};

/// Writes through the window that it receives, and stops at `step` of the second write. Then it writes once more.
pub(super) fn play(address: &str, step: &'static str) {
    let end = End::new();
    let (qp, _) = end.call(address, b"");
    // The window comes as the first message.
    let told = end.completions_of_posted(qp);
    let write = Operation::Write {
        local: end.local(4096, 64),
        remote: place(&told, 0),
    };
    end.set_word(4096, 1);
    end.post(qp, write, true);
    end.completions(end.send_cq, 1);
    plan(Some(step), 0, Fate::Stop);
    end.set_word(4096, 2);
    end.post(qp, write, true);
    end.completions(end.send_cq, 1);
    end.set_word(4096, 3);
    end.post(qp, write, true);
    assert_eq!(
        end.completions(end.send_cq, 1)[0].status,
        Status::RemoteAccess,
        "the window was revoked meanwhile"
    );
}

/// Reserves room for a message and stops. Then it appends another message.
pub(super) fn play_appender(address: &str) {
    let end = End::new();
    let (qp, _) = end.call(address, b"");
    end.post(
        qp,
        Operation::Send {
            local: end.local(0, 8),
        },
        true,
    );
    end.completions(end.send_cq, 1);
    plan(Some("append: reserved"), 0, Fate::Stop);
    end.post(
        qp,
        Operation::Send {
            local: end.local(0, 16),
        },
        true,
    );
    end.post(
        qp,
        Operation::Send {
            local: end.local(0, 24),
        },
        true,
    );
    end.completions(end.send_cq, 2);
    assert_eq!(end.disconnected(qp), DisconnectCause::Requested);
}

/// Reserves room for a message, asks for the memory to put it in, and stops.
pub(super) fn play_place_holder(address: &str) {
    let end = End::new();
    let (qp, _) = end.call(address, b"");
    plan(Some("append: left with a place"), 0, Fate::Stop);
    let send = Operation::Send {
        local: end.local(0, 8),
    };
    end.post(qp, send, true);
    end.completions(end.send_cq, 1);
}

/// Reserves room for a message and stops. Then it appends as long as it lives.
pub(super) fn play_endless_appender(address: &str) {
    let end = End::new();
    let (qp, _) = end.call(address, b"");
    let send = Operation::Send {
        local: end.local(0, 8),
    };
    end.set_word(0, 7);
    end.post(qp, send, true);
    end.completions(end.send_cq, 1);
    plan(Some("append: reserved"), 0, Fate::Stop);
    loop {
        end.post(qp, send, true);
        end.completions(end.send_cq, 1);
    }
}

impl End {
    /// Receives one message of 12 bytes.
    pub(super) fn completions_of_posted(&self, qp: stonecast_fabric::QueuePair) -> Vec<u8> {
        self.receive(ReceiveQueue::Own(qp), 0, 0, 64);
        self.completions(self.receive_cq, 1);
        let mut told = vec![0; 12];
        self.device.memory(self.buffer).read(0, &mut told);
        told
    }
}

/// The result of `poll`, while the server's device makes progress.
fn end_of(
    server: &End,
    what: &str,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<(), DeviceError>>,
) -> Result<(), DeviceError> {
    let mut ended = None;
    server.wait(what, || {
        server.poll(server.receive_cq);
        match poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => {
                ended = Some(result);
                Some(())
            }
            Poll::Pending => None,
        }
    });
    ended.expect("just set")
}

fn invalidate(server: &End, rkey: stonecast_fabric::Rkey) -> Result<(), DeviceError> {
    end_of(server, "the end of the invalidation", |context| {
        server.device.poll_invalidate(rkey, context)
    })
}

/// A server with a window inside which a peer has stopped.
struct Stopped {
    server: End,
    peer: Peer,
    qp: stonecast_fabric::QueuePair,
    window: stonecast_fabric::Rkey,
    /// Kept by the owner and dropped last: its drop ends the right to run alone.
    _stage: Stage,
}

fn stopped_writer(part: &str) -> Stopped {
    let stage = stage();
    let server = End::new();
    server.device.listen(&stage.address).unwrap();
    let peer = Peer::start(part, &stage.address, 0);
    let (qp, _) = server.answer(None, b"");
    let window = server
        .device
        .bind_window(qp, server.buffer, 8192, 64, Access::REMOTE_WRITE)
        .unwrap();
    let invitation = [
        (server.buffer.address + 8192).to_le_bytes().as_slice(),
        &window.0.to_le_bytes(),
    ]
    .concat();
    server.device.memory(server.buffer).write(0, &invitation);
    server.post(
        qp,
        Operation::Send {
            local: server.local(0, 12),
        },
        true,
    );
    server.completions(server.send_cq, 1);
    peer.wait_until_stopped();
    Stopped {
        _stage: stage,
        server,
        peer,
        qp,
        window,
    }
}

/// Needs the announcement: without it the first invalidation would return at once.
#[test]
fn memory_is_reused_only_after_a_stopped_peer_has_left() {
    is_waited_for_until_it_has_left("stops while it writes");
}

/// The first invalidation waits for the peer that plays `part`, and nothing changes after it ends.
pub(super) fn is_waited_for_until_it_has_left(part: &str) {
    let Stopped {
        _stage,
        server,
        mut peer,
        qp,
        window,
    } = stopped_writer(part);
    let refused = invalidate(&server, window).unwrap_err();
    let name = format!("process {}", peer.0.id());
    assert!(
        matches!(&refused, DeviceError::Unquiesced { peer } if peer.contains(&name)),
        "{refused}"
    );
    peer.signal(Signal::CONT);
    server.wait("the peer to leave", || invalidate(&server, window).ok());
    assert_eq!(
        server.disconnected(qp),
        DisconnectCause::QueuePairError,
        "its next write is refused"
    );
    assert_eq!(
        server.word(8192),
        2,
        "nothing is written after the invalidation"
    );
    assert!(!peer.was_killed());
}

/// Needs `release_dead`: without it the key would never be free.
#[test]
fn memory_is_reused_when_a_peer_that_was_stopped_inside_dies() {
    is_waited_for_until_it_dies("stops while it writes");
}

/// The same story, in which the peer that plays `part` dies.
pub(super) fn is_waited_for_until_it_dies(part: &str) {
    let Stopped {
        _stage,
        server,
        mut peer,
        qp,
        window,
    } = stopped_writer(part);
    assert!(invalidate(&server, window).is_err());
    peer.kill();
    assert_eq!(server.disconnected(qp), DisconnectCause::PeerDied);
    invalidate(&server, window).unwrap();
}

/// Needs the zombies: without them the connection would be forgotten with the queue pair, and the stopped peer with it.
#[test]
fn a_stopped_peer_is_remembered_after_its_queue_pair_is_destroyed() {
    let Stopped {
        _stage,
        server,
        mut peer,
        qp,
        window,
    } = stopped_writer("stops while it writes");
    server.device.destroy_queue_pair(qp).unwrap();
    assert!(matches!(
        invalidate(&server, window),
        Err(DeviceError::Unquiesced { .. })
    ));
    assert!(
        matches!(
            invalidate(&server, server.buffer.rkey),
            Err(DeviceError::Unquiesced { .. })
        ),
        "the peer may be inside"
    );
    peer.kill();
    server.wait("the death of the peer", || {
        server.poll(server.receive_cq);
        invalidate(&server, window).ok()
    });
    invalidate(&server, server.buffer.rkey).unwrap();
}

/// Needs the intents: without them the reservation of the stopped appender would be skipped, and written later.
#[test]
fn the_receiver_waits_for_a_stopped_appender_until_it_dies_or_continues() {
    for dies in [false, true] {
        let stage = stage();
        let server = End::new();
        server.device.listen(&stage.address).unwrap();
        let options = SharedReceiveQueueOptions {
            capacity: 4,
            multi_packet: Some(MultiPacketOptions::telling(64)),
            in_order: false,
        };
        let srq = server.device.create_shared_receive_queue(options).unwrap();
        server.receive(ReceiveQueue::Shared(srq), 9, 0, 4096);
        let mut peer = Peer::start("stops while it appends", &stage.address, 0);
        let (qp, _) = server.answer(Some(srq), b"");
        assert_eq!(
            server.completions(server.receive_cq, 1)[0].placement.size,
            8
        );
        peer.wait_until_stopped();

        let other = End::new();
        let theirs = server.queue_pair(Some(srq));
        let ours = other.queue_pair(None);
        other.device.connect(ours, &stage.address, b"").unwrap();
        server.answer_with(theirs, b"");
        other.event("a connection", |event| {
            matches!(event, stonecast_fabric::ConnectionEvent::Established { .. })
        });
        other.post(
            ours,
            Operation::Send {
                local: other.local(0, 32),
            },
            true,
        );
        assert_eq!(
            other.completions(other.send_cq, 1)[0].status,
            Status::Success,
            "the other appender is not blocked"
        );
        for _ in 0..50 {
            assert_eq!(
                server.poll(server.receive_cq),
                [],
                "the receiver waits for the live appender"
            );
        }
        let sizes = |count| -> Vec<u32> {
            let found = server.completions(server.receive_cq, count);
            assert!(
                found
                    .iter()
                    .all(|completion| completion.opcode == Opcode::Receive)
            );
            found
                .iter()
                .map(|completion| completion.placement.size)
                .collect()
        };
        if dies {
            peer.kill();
            assert_eq!(sizes(1), [32], "the hole is skipped");
            assert_eq!(server.disconnected(qp), DisconnectCause::PeerDied);
        } else {
            peer.signal(Signal::CONT);
            assert_eq!(sizes(3), [16, 32, 24], "in the order of the reservations");
            server.device.disconnect(qp).unwrap();
            assert!(!peer.was_killed());
        }
    }
}

/// The result of quiescing the queue pair of a peer.
pub(super) fn quiesce(server: &End, qp: QueuePair) -> Result<(), DeviceError> {
    end_of(server, "quiet", |context| {
        server.device.poll_quiesce(qp, context)
    })
}

/// Needs the closing of the connection and the check of the requester inside: without either, an appender that
/// continues would write into a buffer that belongs to another user by then.
fn an_appender_that_stopped_inside_is_not_quiet() {
    for dies in [false, true] {
        let stage = stage();
        let server = End::new();
        server.device.listen(&stage.address).unwrap();
        let options = SharedReceiveQueueOptions {
            capacity: 4,
            multi_packet: Some(MultiPacketOptions::telling(64)),
            in_order: false,
        };
        let srq = server.device.create_shared_receive_queue(options).unwrap();
        server.receive(ReceiveQueue::Shared(srq), 9, 0, 4096);
        let mut peer = Peer::start("stops while it appends forever", &stage.address, 0);
        let (qp, _) = server.answer(Some(srq), b"");
        server.completions(server.receive_cq, 1);
        peer.wait_until_stopped();
        let refused = quiesce(&server, qp).unwrap_err();
        assert!(
            matches!(&refused, DeviceError::Unquiesced { .. }),
            "the peer is inside: {refused}"
        );
        if dies {
            peer.kill();
        } else {
            peer.signal(Signal::CONT);
        }
        server.wait("the peer to leave", || quiesce(&server, qp).ok());
        let memory = server.device.memory(server.buffer);
        memory.write(0, &[0; 4096]);
        for _ in 0..200 {
            server.poll(server.receive_cq);
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let mut bytes = vec![0; 4096];
        memory.read(0, &mut bytes);
        assert_eq!(bytes, vec![0; 4096], "after quiet (the peer dies: {dies})");
        quiesce(&server, qp).unwrap();
        peer.kill();
    }
}

#[test]
fn nothing_of_a_stopped_appender_lands_after_quiescing() {
    an_appender_that_stopped_inside_is_not_quiet();
}

#[cfg(feature = "mutants")]
#[test]
fn every_seeded_bug_of_shared_memory_is_found() {
    let story: fn() = an_appender_that_stopped_inside_is_not_quiet;
    let stories = [(stonecast_base::mutants::Mutant::InsideNotAwaited, story)];
    stonecast_base::hunts::by_stories("fabric-shm", &stories);
}

/// Needs the claims of a quiet peer to be ignored: the place that it had reserved would otherwise delay all others for
/// as long as it is stopped.
#[test]
fn a_reservation_of_a_quiet_peer_delays_no_one() {
    let stage = stage();
    let server = End::new();
    server.device.listen(&stage.address).unwrap();
    let options = SharedReceiveQueueOptions {
        capacity: 4,
        multi_packet: Some(MultiPacketOptions::silent(64)),
        in_order: false,
    };
    let srq = server.device.create_shared_receive_queue(options).unwrap();
    server.receive(ReceiveQueue::Shared(srq), 9, 0, 512);
    let mut peer = Peer::start("stops with a place", &stage.address, 0);
    let (qp, _) = server.answer(Some(srq), b"");
    peer.wait_until_stopped();
    let other = End::new();
    let theirs = server.queue_pair(Some(srq));
    let ours = other.queue_pair(None);
    other.device.connect(ours, &stage.address, b"").unwrap();
    server.answer_with(theirs, b"");
    other.event("a connection", |event| {
        matches!(event, stonecast_fabric::ConnectionEvent::Established { .. })
    });
    // The place of the stopped peer is the first of eight.
    for _ in 0..7 {
        let send = Operation::Send {
            local: other.local(0, 64),
        };
        other.post(ours, send, true);
    }
    other.completions(other.send_cq, 7);
    let mut consumed = Vec::new();
    for _ in 0..50 {
        server.device.poll_consumed(srq, &mut consumed);
        assert_eq!(consumed, [], "a live peer may still write there");
    }
    quiesce(&server, qp).unwrap();
    server.wait("the buffer", || {
        server.device.poll_consumed(srq, &mut consumed);
        (!consumed.is_empty()).then_some(())
    });
    assert_eq!(consumed, [9], "while the peer is stopped");
    assert_eq!(server.poll(server.receive_cq), [], "the queue is silent");
    peer.kill();
}
