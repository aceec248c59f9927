//! A peer that dies or stops in the middle of changes that it executes at once.

use std::task::{Context, Poll, Waker};

use stonecast_fabric::{
    Access, ChangeNow, Device, DisconnectCause, Operation, RemoteAddress, Status,
};

use super::end::{End, place};
use super::stops::{is_waited_for_until_it_dies, is_waited_for_until_it_has_left};
use super::{Peer, die_at, stage};
use crate::step::testing::{Fate, plan};

/// Rounds of a peer that does not die. Each has eight steps.
const ROUNDS: u64 = 4;
/// Words of the note that is written before the word that publishes it.
const NOTE_WORDS: u64 = 4;
const RECORD_WORDS: u64 = 25;
/// The offsets of the words that the peer changes.
const COUNTER: u64 = 0;
const WORD: u64 = 8;
const NOTE: u64 = 64;
const RECORD: u64 = 4096;

/// The peer: takes a number, writes a note and a record, and swaps a word, round after round, and dies in between.
pub(super) fn play(address: &str, step: u64) {
    let end = End::new();
    let (qp, invitation) = end.call(address, b"");
    let at = |offset| place(&invitation, offset);
    // The region is fetched first, so that only effects on shared memory are counted.
    end.post(
        qp,
        Operation::Write {
            local: end.local(0, 8),
            remote: at(COUNTER),
        },
        true,
    );
    end.completions(end.send_cq, 1);
    die_at(step);
    for round in 1..=ROUNDS {
        let mut number = 0;
        assert!(end.device.change_now(
            qp,
            &mut [ChangeNow::FetchAndAdd {
                remote: at(COUNTER),
                add: 1,
                found: &mut number
            }]
        ));
        assert_eq!(number, round - 1);
        let words = [round; RECORD_WORDS as usize].map(u64::to_ne_bytes);
        let bytes = words.as_flattened();
        let mut found = 0;
        let done = end.device.change_now(
            qp,
            &mut [
                ChangeNow::Write {
                    remote: at(NOTE),
                    from: &bytes[..NOTE_WORDS as usize * 8],
                },
                ChangeNow::Write {
                    remote: at(RECORD),
                    from: bytes,
                },
                ChangeNow::CompareAndSwap {
                    remote: at(WORD),
                    expected: round - 1,
                    swap: round,
                    found: &mut found,
                },
            ],
        );
        assert!(done && found == round - 1);
    }
}

/// Changes the window that it receives, and stops in the middle of the second change. Then it tries once more.
pub(super) fn play_stopped(address: &str) {
    let end = End::new();
    let (qp, _) = end.call(address, b"");
    let told = end.completions_of_posted(qp);
    let write = Operation::Write {
        local: end.local(4096, 64),
        remote: place(&told, 0),
    };
    end.set_word(4096, 1);
    end.post(qp, write, true);
    end.completions(end.send_cq, 1);
    let change = |value: u64| {
        let bytes = value.to_ne_bytes();
        end.device.change_now(
            qp,
            &mut [ChangeNow::Write {
                remote: place(&told, 0),
                from: &bytes,
            }],
        )
    };
    plan(Some("requester: changed"), 0, Fate::Stop);
    assert!(change(2), "the change began before the window was revoked");
    assert!(!change(3), "the window was revoked meanwhile");
    end.set_word(4096, 4);
    end.post(qp, write, true);
    assert_eq!(
        end.completions(end.send_cq, 1)[0].status,
        Status::RemoteAccess
    );
}

/// Published data are whole, earlier data are present first, and no peer is left inside. Needs the announcement to be
/// forgotten with its maker.
#[test]
fn a_peer_may_die_at_any_step_of_its_changes() {
    let stage = stage();
    let server = End::new();
    server.device.listen(&stage.address).unwrap();
    for step in 0.. {
        (0..BUFFER_WORDS).for_each(|word| server.set_word(word * 8, 0));
        let mut peer = Peer::start("changer", &stage.address, step);
        let qp = server.queue_pair(None);
        server.answer_with(qp, &server.invitation());
        let cause = server.wait("the end of the peer", || {
            server.poll(server.receive_cq);
            (server.more_events(qp) > 0).then(|| server.disconnected(qp))
        });
        let killed = peer.was_killed();
        assert_eq!(
            cause,
            if killed {
                DisconnectCause::PeerDied
            } else {
                DisconnectCause::Requested
            },
            "step {step}"
        );
        check(&server, step);
        let window = server
            .device
            .bind_window(qp, server.buffer, 0, 64, Access::REMOTE_WRITE)
            .unwrap();
        let revoked = server
            .device
            .poll_invalidate(window, &mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(revoked, Poll::Ready(Ok(()))),
            "step {step}: {revoked:?}"
        );
        server.device.destroy_queue_pair(qp).unwrap();
        if !killed {
            assert_eq!((server.word(COUNTER), server.word(WORD)), (ROUNDS, ROUNDS));
            assert!(step > 20, "the peer has steps to die at: {step}");
            break;
        }
    }
}

const BUFFER_WORDS: u64 = (RECORD / 8) + RECORD_WORDS;

/// Each item belongs to the round that the word names, or to the next one; and to the next one only if the item before
/// it does.
fn check(server: &End, step: u64) {
    let round = server.word(WORD);
    let words = |start: u64, count: u64| -> Vec<u64> {
        (0..count)
            .map(|word| server.word(start + word * 8))
            .collect()
    };
    let (note, record) = (words(NOTE, NOTE_WORDS), words(RECORD, RECORD_WORDS));
    let of_both = |words: &[u64]| words.iter().all(|&word| word == round || word == round + 1);
    assert!(
        of_both(&[server.word(COUNTER)]) && of_both(&note) && of_both(&record),
        "step {step}: {note:?} {record:?}"
    );
    let has_begun = |words: &[u64]| words.contains(&(round + 1));
    let is_whole = |words: &[u64]| words.iter().all(|&word| word == round + 1);
    assert!(
        !has_begun(&record) || is_whole(&note),
        "step {step}: the note comes before the record"
    );
    assert!(
        !has_begun(&note) || server.word(COUNTER) == round + 1,
        "step {step}: the number is taken first"
    );
}

/// Needs the announcement around changes: without it the first invalidation would return at once.
#[test]
fn memory_is_not_reused_while_a_stopped_peer_is_in_the_middle_of_changes() {
    is_waited_for_until_it_has_left("stops while it changes");
}

/// The same story, with the peer's death.
#[test]
fn memory_is_reused_when_a_peer_that_was_stopped_in_the_middle_of_changes_dies() {
    is_waited_for_until_it_dies("stops while it changes");
}

/// Needs the look-up of all places before anything is changed.
#[test]
fn changes_through_a_key_that_was_never_used_are_left_to_posted_operations() {
    let stage = stage();
    let (server, client) = (End::new(), End::new());
    server.device.listen(&stage.address).unwrap();
    let qp = server.queue_pair(None);
    let ours = client.queue_pair(None);
    client.device.connect(ours, &stage.address, b"").unwrap();
    server.answer_with(qp, &server.invitation());
    client.event("a connection", |event| {
        matches!(event, stonecast_fabric::ConnectionEvent::Established { .. })
    });
    let remote = RemoteAddress {
        address: server.buffer.address,
        rkey: server.buffer.rkey,
    };
    let bytes = [1; 8];
    let write = || {
        client.device.change_now(
            ours,
            &mut [ChangeNow::Write {
                remote,
                from: &bytes,
            }],
        )
    };
    assert!(!write(), "the region must be fetched first");
    assert_eq!(server.word(0), 0);
    client.post(
        ours,
        Operation::Write {
            local: client.local(0, 8),
            remote,
        },
        true,
    );
    server.wait("a WRITE", || {
        server.poll(server.receive_cq);
        (!client.poll(client.send_cq).is_empty()).then_some(())
    });
    assert!(write());
    assert_eq!(server.word(0), u64::from_ne_bytes(bytes));
    let refused = RemoteAddress {
        address: remote.address + super::end::BUFFER_SIZE - 4,
        ..remote
    };
    let mut half = [
        ChangeNow::Write {
            remote,
            from: &[0; 8],
        },
        ChangeNow::Write {
            remote: refused,
            from: &bytes,
        },
    ];
    assert!(!client.device.change_now(ours, &mut half));
    assert_eq!(
        server.word(0),
        u64::from_ne_bytes(bytes),
        "a batch that cannot be executed changes nothing"
    );
}
