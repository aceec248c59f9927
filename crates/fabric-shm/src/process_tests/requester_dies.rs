//! A requester that dies between any two steps of its operations harms no one.

use std::task::{Context, Poll, Waker};

use stonecast_fabric::{
    Device, DisconnectCause, MultiPacketOptions, Opcode, Operation, ReceiveQueue,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status, WorkCompletion,
};

use super::end::{End, place};
use super::{Peer, die_at, footprint, stage};

/// Rounds of a requester that does not die. Each has more than a dozen steps.
const ROUNDS: u64 = 4;
/// Bytes of a message that does not fit one line.
const MESSAGE_SIZE: u32 = 1000;
const STRIDE: u32 = 64;

/// The requester: writes, sends and writes with immediate, round after round, and dies in between.
pub(super) fn play(address: &str, step: u64) {
    let end = End::new();
    let (qp, invitation) = end.call(address, b"");
    let at = |offset| place(&invitation, offset);
    // The regions are fetched first, so that only effects on shared memory are counted.
    end.post(
        qp,
        Operation::Write {
            local: end.local(0, 8),
            remote: at(0),
        },
        true,
    );
    end.completions(end.send_cq, 1);
    die_at(step);
    for round in 1..=ROUNDS {
        for word in 0..u64::from(MESSAGE_SIZE / 8) {
            end.set_word(word * 8, round);
        }
        end.post(
            qp,
            Operation::Write {
                local: end.local(0, MESSAGE_SIZE),
                remote: at(0),
            },
            false,
        );
        end.post(
            qp,
            Operation::Send {
                local: end.local(0, MESSAGE_SIZE),
            },
            true,
        );
        let written = Operation::WriteWithImmediate {
            local: end.local(0, 64),
            remote: at(4096),
            immediate: round as u32,
        };
        end.post(qp, written, true);
        end.completions(end.send_cq, 2);
    }
}

/// The appender: appends messages of several strides, two with one reservation, until it dies.
pub(super) fn play_appender(address: &str, step: u64) {
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
    die_at(step);
    for round in 0..ROUNDS {
        for word in 0..25 {
            end.set_word(word * 8, 2 * round + 1);
            end.set_word(256 + word * 8, 2 * round + 2);
        }
        let run = [0, 256].map(|offset| Operation::Send {
            local: end.local(offset, 200),
        });
        end.post_all(qp, &run);
        end.completions(end.send_cq, run.len());
    }
}

/// The messages of the dead requester are whole and in order; its end is reported once; its memory is released; others
/// never notice.
#[test]
fn a_requester_may_die_at_any_step() {
    let stage = stage();
    let server = End::new();
    server.device.listen(&stage.address).unwrap();
    let bystander = End::new();
    let theirs = server.queue_pair(None);
    let ours = bystander.queue_pair(None);
    bystander.device.connect(ours, &stage.address, b"").unwrap();
    server.answer_with(theirs, b"");
    bystander.event("a connection", |event| {
        matches!(event, stonecast_fabric::ConnectionEvent::Established { .. })
    });
    let before = footprint();

    for step in 0.. {
        let mut peer = Peer::start("requester", &stage.address, step);
        let qp = server.queue_pair(None);
        for index in 0..2 * ROUNDS {
            server.receive(ReceiveQueue::Own(qp), index, 8192 + index * 1024, 1024);
        }
        server.answer_with(qp, &server.invitation());
        let mut arrived = Vec::new();
        let cause = server.wait("the end of the requester", || {
            arrived.extend(server.poll(server.receive_cq));
            (server.more_events(qp) > 0).then(|| server.disconnected(qp))
        });
        arrived.extend(server.poll(server.receive_cq));
        let killed = peer.was_killed();
        // A process that ends properly sends a goodbye.
        assert_eq!(
            cause,
            if killed {
                DisconnectCause::PeerDied
            } else {
                DisconnectCause::Requested
            },
            "step {step}"
        );
        check_messages(&server, &arrived);
        assert_eq!(server.more_events(qp), 0, "the end is reported once");

        // No one is inside the memory, wherever the requester died.
        let window = server
            .device
            .bind_window(
                qp,
                server.buffer,
                0,
                64,
                stonecast_fabric::Access::REMOTE_WRITE,
            )
            .unwrap();
        let revoked = server
            .device
            .poll_invalidate(window, &mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(revoked, Poll::Ready(Ok(()))),
            "step {step}: {revoked:?}"
        );
        server.device.destroy_queue_pair(qp).unwrap();
        assert_eq!(
            footprint(),
            before,
            "step {step}: the memory of the connection is free"
        );

        // The bystander's connection works as before.
        server.receive(ReceiveQueue::Own(theirs), 77, 0, 64);
        bystander.post(
            ours,
            Operation::Send {
                local: bystander.local(0, 8),
            },
            true,
        );
        assert_eq!(server.completions(server.receive_cq, 1)[0].wr_id, 77);
        assert_eq!(
            bystander.completions(bystander.send_cq, 1)[0].status,
            Status::Success
        );
        if !killed {
            assert!(step > 20, "the requester has steps to die at: {step}");
            break;
        }
    }
}

/// Messages come in pairs, SEND and WRITE_WITH_IMM; received messages are whole. The rest is flushed.
fn check_messages(server: &End, arrived: &[WorkCompletion]) {
    let successful = arrived
        .iter()
        .take_while(|completion| completion.status == Status::Success)
        .count();
    for (index, completion) in arrived[..successful].iter().enumerate() {
        let (index, round) = (index as u64, index as u64 / 2 + 1);
        assert_eq!(completion.wr_id, index, "buffers are used in order");
        if index.is_multiple_of(2) {
            assert_eq!(
                (completion.opcode, completion.placement.size),
                (Opcode::Receive, MESSAGE_SIZE)
            );
            for word in 0..u64::from(MESSAGE_SIZE / 8) {
                assert_eq!(
                    server.word(8192 + index * 1024 + word * 8),
                    round,
                    "the message is whole"
                );
            }
        } else {
            assert_eq!(
                (completion.opcode, u64::from(completion.immediate)),
                (Opcode::ReceiveWriteWithImmediate, round)
            );
            assert!(
                server.word(4096) >= round,
                "the bytes arrived before the immediate"
            );
        }
    }
    let flushed = arrived[successful..]
        .iter()
        .all(|completion| completion.status == Status::WorkRequestFlushed);
    assert!(
        flushed && arrived.len() as u64 == 2 * ROUNDS,
        "every buffer comes back: {arrived:?}"
    );
}

fn multi_packet_queue(end: &End) -> SharedReceiveQueue {
    let options = SharedReceiveQueueOptions {
        capacity: 16,
        multi_packet: Some(MultiPacketOptions::telling(STRIDE)),
        in_order: false,
    };
    end.device.create_shared_receive_queue(options).unwrap()
}

/// The hole of a dead appender is skipped, whatever was in transit; the messages of a live appender arrive around it,
/// and every buffer comes back exactly once.
#[test]
fn an_appender_may_die_at_any_step() {
    let stage = stage();
    let server = End::new();
    server.device.listen(&stage.address).unwrap();
    let srq = multi_packet_queue(&server);
    let bystander = End::new();
    let theirs = server.queue_pair(Some(srq));
    let ours = bystander.queue_pair(None);
    bystander.device.connect(ours, &stage.address, b"").unwrap();
    server.answer_with(theirs, b"");
    bystander.event("a connection", |event| {
        matches!(event, stonecast_fabric::ConnectionEvent::Established { .. })
    });
    // Buffers have 12 strides; appends of 4 and 1 strides fill them in all ways.
    let post = |wr_id: u64| {
        server.receive(
            ReceiveQueue::Shared(srq),
            wr_id,
            (wr_id % 16) * 1024,
            12 * STRIDE,
        )
    };
    (0..8).for_each(post);
    let mut next_buffer = 8;
    let mut consumed = Vec::new();
    for step in 0.. {
        let mut peer = Peer::start("appender", &stage.address, step);
        let (qp, _) = server.answer(Some(srq), b"");
        let mut from_dead = Vec::new();
        let mut from_living = 0;
        let take = |from_dead: &mut Vec<u64>,
                    from_living: &mut u64,
                    consumed: &mut Vec<u64>,
                    next: &mut u64| {
            let arrivals = server.poll(server.receive_cq);
            let mut buffers = Vec::new();
            server.device.poll_consumed(srq, &mut buffers);
            for wr_id in buffers {
                consumed.push(wr_id);
                post(*next);
                *next += 1;
            }
            for completion in arrivals {
                assert_eq!(completion.status, Status::Success);
                match completion.opcode {
                    Opcode::Receive if completion.qp == theirs => *from_living += 1,
                    Opcode::Receive => {
                        let start =
                            (completion.wr_id % 16) * 1024 + u64::from(completion.placement.offset);
                        let words: Vec<u64> =
                            (0..25).map(|word| server.word(start + word * 8)).collect();
                        let is_first = completion.placement.size == 8;
                        assert!(
                            is_first || words.iter().all(|word| *word == words[0]),
                            "the message is whole: {words:?}"
                        );
                        from_dead.push(if is_first { 0 } else { words[0] });
                    }
                    other => panic!("unexpected: {other:?}"),
                }
            }
        };
        // The live appender appends all the time, before and after the death.
        let mut sent = 0;
        let mut send = || {
            bystander.poll(bystander.send_cq);
            bystander.post(
                ours,
                Operation::Send {
                    local: bystander.local(0, 8),
                },
                false,
            );
            sent += 1;
        };
        server.wait("the end of the appender", || {
            if server.more_events(qp) == 0 && from_living < 5 {
                send();
            }
            take(
                &mut from_dead,
                &mut from_living,
                &mut consumed,
                &mut next_buffer,
            );
            (server.more_events(qp) > 0).then_some(())
        });
        (0..3).for_each(|_| send());
        server.wait("the messages of the living", || {
            bystander.poll(bystander.send_cq);
            take(
                &mut from_dead,
                &mut from_living,
                &mut consumed,
                &mut next_buffer,
            );
            (from_living == sent).then_some(())
        });
        assert_eq!(
            from_dead,
            (0..from_dead.len() as u64).collect::<Vec<_>>(),
            "in order, none twice"
        );
        let killed = peer.was_killed();
        server.device.destroy_queue_pair(qp).unwrap();
        if !killed {
            assert_eq!(
                from_dead.len() as u64,
                2 * ROUNDS + 1,
                "the surviving appender has sent everything"
            );
            assert!(step > 15, "the appender has steps to die at: {step}");
            break;
        }
    }
    assert_eq!(
        consumed,
        (0..consumed.len() as u64).collect::<Vec<_>>(),
        "each buffer comes back once, in order"
    );
    assert!(
        consumed.len() > 10,
        "buffers were used up: {}",
        consumed.len()
    );
}
