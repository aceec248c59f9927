//! A responder that dies while it takes messages leaves its requester with errors, not with silence.

use stonecast_fabric::{Device, DisconnectCause, ReceiveQueue, Status};

use super::end::End;
use super::{Peer, die_at, footprint, stage};

/// Messages that the requester sends.
const MESSAGES: u64 = 6;

/// The responder: takes messages until it dies.
pub(super) fn play(address: &str, step: u64) {
    let end = End::new();
    end.device.listen(address).expect("the address is free");
    let qp = end.queue_pair(None);
    for index in 0..MESSAGES {
        end.receive(ReceiveQueue::Own(qp), index, index * 1024, 1024);
    }
    end.answer_with(qp, b"");
    die_at(step);
    for _ in 0..MESSAGES {
        end.completions(end.receive_cq, 1);
    }
    // The responder stays until the requester has seen everything.
    assert_eq!(end.disconnected(qp), DisconnectCause::Requested);
}

/// Each message is acknowledged or fails: first with `RetryExceeded`, then flushed; afterwards the end is reported
/// once.
#[test]
fn a_responder_may_die_at_any_step() {
    for step in 0.. {
        let stage = stage();
        let mut peer = Peer::start("responder", &stage.address, step);
        let client = End::new();
        let before = footprint();
        let (qp, _) = client.call(&stage.address, b"");
        // One batch: a death that is noticed between two posts would find nothing outstanding.
        client.post_all(qp, &[client.send_of(1000); MESSAGES as usize]);
        let completions = client.completions(client.send_cq, MESSAGES as usize);
        let statuses: Vec<_> = completions
            .iter()
            .map(|completion| completion.status)
            .collect();
        let acknowledged = statuses
            .iter()
            .take_while(|status| **status == Status::Success)
            .count();
        if acknowledged == MESSAGES as usize && peer.0.try_wait().unwrap().is_none() {
            // The responder may be about to die at its last steps; a goodbye lets it end in any case.
            client.device.disconnect(qp).unwrap();
        }
        client.disconnected(qp);
        let killed = peer.was_killed();
        if let Some((first, rest)) = statuses[acknowledged..].split_first() {
            assert!(killed, "a living responder takes everything: {statuses:?}");
            assert_eq!(*first, Status::RetryExceeded, "step {step}");
            assert!(
                rest.iter()
                    .all(|status| *status == Status::WorkRequestFlushed),
                "step {step}: {statuses:?}"
            );
        }
        assert_eq!(client.more_events(qp), 0, "the end is reported once");
        client.post(qp, client.send_of(8), false);
        assert_eq!(
            client.completions(client.send_cq, 1)[0].status,
            Status::WorkRequestFlushed
        );
        client.device.destroy_queue_pair(qp).unwrap();
        assert_eq!(
            footprint(),
            before,
            "step {step}: the memory of the connection is free"
        );
        if !killed {
            assert!(
                step >= MESSAGES,
                "the responder has steps to die at: {step}"
            );
            break;
        }
    }
}
