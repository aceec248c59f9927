//! Access to the memory of a peer that has ended: that memory stays mapped, and no one keeps it current.

use std::time::Duration;

use stonecast_fabric::{
    ChangeNow, ConnectionEvent, Device, Operation, QueuePair, ReadInto, RemoteAddress, Status,
};
use stonecast_fabric_shm::ShmOptions;

use crate::node::{Node, place};

/// Checks, a millisecond apart, until the end is reported.
const LOOKS: u32 = 30_000;

/// A requester that reads and changes the memory of a responder in the call.
struct Stage {
    requester: Node,
    /// The responder, until it ends.
    responder: Option<Node>,
    qp: QueuePair,
    remote: RemoteAddress,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("shm:{}", folder.path().join("socket").display());
        let (mut requester, mut responder) = (
            Node::new(ShmOptions::default()),
            Node::new(ShmOptions::default()),
        );
        responder.device.listen(&address).unwrap();
        let qp = requester.queue_pair(None);
        requester.device.connect(qp, &address, b"").unwrap();
        let theirs = responder.queue_pair(None);
        responder.answer(theirs);
        let event = requester.event(|event| matches!(event, ConnectionEvent::Established { .. }));
        let ConnectionEvent::Established { private_data, .. } = event else {
            unreachable!("just matched")
        };
        let remote = place(&private_data, 0);
        let stage = Self {
            requester,
            responder: Some(responder),
            qp,
            remote,
            _folder: folder,
        };
        stage.with_memory()
    }

    /// Executes the first READ and the first change, which request the memory.
    fn with_memory(mut self) -> Self {
        let (local, remote) = (self.requester.local(0, 8), self.remote);
        for first in [
            Operation::Read { local, remote },
            Operation::FetchAndAdd {
                local,
                remote,
                add: 1,
            },
        ] {
            self.requester.post(self.qp, first, true);
            assert_eq!(self.requester.completion().status, Status::Success);
        }
        assert!(self.reads() && self.changes());
        self
    }

    fn reads(&self) -> bool {
        let read = ReadInto {
            remote: self.remote,
            into: &mut [0; 8],
        };
        self.requester.device.read_now(self.qp, &mut [read]) == Some(Status::Success)
    }

    fn changes(&self) -> bool {
        let mut found = 0;
        let change = ChangeNow::FetchAndAdd {
            remote: self.remote,
            add: 1,
            found: &mut found,
        };
        self.requester.device.change_now(self.qp, &mut [change])
    }

    /// Ends the responder, while the requester does nothing but `works` until that fails.
    fn end_while(&mut self, works: impl Fn(&Self) -> bool) {
        self.responder = None;
        let told = (0..LOOKS).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            !works(self)
        });
        assert!(told, "the end is not reported");
    }
}

/// Needs the check of the control thread's reports, in the call and in the post.
#[test]
fn a_requester_that_only_reads_is_told_of_the_end_and_stops_reading() {
    let mut stage = Stage::new();
    stage.end_while(Stage::reads);
    let local = stage.requester.local(0, 8);
    stage.requester.post(
        stage.qp,
        Operation::Read {
            local,
            remote: stage.remote,
        },
        true,
    );
    assert_eq!(
        stage.requester.completion().status,
        Status::WorkRequestFlushed,
        "a posted READ is not executed either"
    );
}

/// Like the story above, for changes in the call.
#[test]
fn a_requester_that_only_changes_is_told_of_the_end_and_stops_changing() {
    Stage::new().end_while(Stage::changes);
}
