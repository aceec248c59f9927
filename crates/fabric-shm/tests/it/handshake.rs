//! Callers and servers that do not speak the protocol, or speak another version of it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use stonecast_fabric::{ConnectionEvent, Device, DeviceError, DisconnectCause};
use stonecast_fabric_shm::ShmOptions;

use crate::node::Node;

struct Stage {
    folder: tempfile::TempDir,
    node: Node,
}

impl Stage {
    /// A node that listens, if asked to.
    fn new(listens: bool) -> Self {
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
            node: Node::new(ShmOptions::default()),
        };
        if listens {
            stage.node.device.listen(&stage.address()).unwrap();
        }
        stage
    }

    fn address(&self) -> String {
        format!("shm:{}", self.folder.path().join("socket").display())
    }

    fn socket_address(&self) -> SocketAddrUnix {
        SocketAddrUnix::new(self.folder.path().join("socket").as_path() as &Path).unwrap()
    }

    /// A caller that sends arbitrary packets.
    fn stranger(&self) -> OwnedFd {
        let socket = packet_socket();
        rustix::net::connect(&socket, &self.socket_address()).unwrap();
        socket
    }

    /// Asserts that the node still serves a well-behaved caller.
    fn assert_serves(&mut self) {
        let mut caller = Node::new(ShmOptions::default());
        let (theirs, ours) = (caller.queue_pair(None), self.node.queue_pair(None));
        caller.device.connect(theirs, &self.address(), b"").unwrap();
        self.node.answer(ours);
        caller.event(|event| matches!(event, ConnectionEvent::Established { .. }));
    }
}

/// The version of the protocol.
const VERSION: u32 = 2;

fn packet_socket() -> OwnedFd {
    rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap()
}

fn say(socket: &OwnedFd, packet: &[u8], files: &[BorrowedFd<'_>]) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    }
    rustix::net::sendmsg(
        socket,
        &[IoSlice::new(packet)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .unwrap();
}

/// The next packet; empty at the end.
fn hear(socket: &OwnedFd) -> Vec<u8> {
    let mut buffer = [0; 8192];
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let received = rustix::net::recvmsg(
        socket,
        &mut slices,
        &mut Default::default(),
        RecvFlags::empty(),
    )
    .unwrap();
    buffer[..received.bytes].to_vec()
}

/// A packet of `version`, after the magic of the protocol.
fn packet(version: u32, kind: u32, body: &[u8]) -> Vec<u8> {
    [
        b"stncastM".as_slice(),
        &version.to_le_bytes(),
        &kind.to_le_bytes(),
        body,
    ]
    .concat()
}

/// The reason of a rejection.
fn reason(packet: &[u8]) -> String {
    assert_eq!(
        (&packet[..8], &packet[12..16]),
        (b"stncastM".as_slice(), 3u32.to_le_bytes().as_slice()),
        "the packet is a rejection"
    );
    String::from_utf8(packet[16..].to_vec()).unwrap()
}

#[test]
fn a_caller_of_another_version_is_told_both_versions() {
    let mut stage = Stage::new(true);
    let stranger = stage.stranger();
    say(&stranger, &packet(77, 1, &[0; 64]), &[]);
    let reason = reason(&hear(&stranger));
    assert!(
        reason.contains("version 77") && reason.contains("version 2"),
        "{reason}"
    );
    assert_eq!(hear(&stranger), b"", "and hung up");
    stage.assert_serves();
}

#[test]
fn a_caller_that_speaks_something_else_is_told_so() {
    for nonsense in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0],
        vec![0xff; 4096],
        vec![7; 8000],
        packet(VERSION, 1, b""),
        packet(VERSION, 99, b""),
    ] {
        let mut stage = Stage::new(true);
        let stranger = stage.stranger();
        say(&stranger, &nonsense, &[]);
        assert!(!reason(&hear(&stranger)).is_empty());
        assert_eq!(hear(&stranger), b"", "and hung up");
        stage.assert_serves();
    }
}

/// A proper request with the wrong descriptors: the program sees it only if the descriptors are counted wrong, and
/// accepting it fails without harm.
#[test]
fn a_caller_that_gives_the_wrong_descriptors_is_not_connected() {
    let hello = {
        let mut body = vec![0; 48];
        body[0..4].copy_from_slice(&0x1_0000u32.to_le_bytes());
        body[16..24].copy_from_slice(&(256u64 << 10).to_le_bytes());
        body
    };
    let file = tempfile::tempfile().unwrap();
    file.set_len(16 << 20).unwrap();
    for (count, reaches_the_program) in [(0, false), (1, false), (2, true), (3, false), (9, false)]
    {
        let mut stage = Stage::new(true);
        let stranger = stage.stranger();
        say(
            &stranger,
            &packet(VERSION, 1, &hello),
            &vec![file.as_fd(); count],
        );
        if reaches_the_program {
            let event = stage
                .node
                .event(|event| matches!(event, ConnectionEvent::Request { .. }));
            let ConnectionEvent::Request { request, .. } = event else {
                unreachable!("just matched")
            };
            let qp = stage.node.queue_pair(None);
            let error = stage.node.device.accept(request, qp, b"").unwrap_err();
            assert!(
                matches!(&error, DeviceError::System { source, .. } if source.to_string().contains("truncate")),
                "{error}"
            );
        }
        let reason = reason(&hear(&stranger));
        assert!(!reason.is_empty(), "{count} descriptors");
        stage.assert_serves();
    }
}

#[test]
fn a_caller_that_hangs_up_or_stays_silent_disturbs_no_one() {
    let mut stage = Stage::new(true);
    let silent: Vec<_> = (0..20).map(|_| stage.stranger()).collect();
    drop(stage.stranger());
    stage.assert_serves();
    drop(silent);
    stage.assert_serves();
    let requests = stage
        .node
        .events
        .iter()
        .filter(|event| matches!(event, ConnectionEvent::Request { .. }))
        .count();
    assert_eq!(requests, 0, "none of them became a request");
}

/// A server answers the call of a node with `answers`, and hangs up. Returns the reason that the node learns.
fn called(answers: &[Vec<u8>]) -> String {
    let mut stage = Stage::new(false);
    let listener = packet_socket();
    rustix::net::bind(&listener, &stage.socket_address()).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    let qp = stage.node.queue_pair(None);
    stage
        .node
        .device
        .connect(qp, &stage.address(), b"")
        .unwrap();
    let caller = rustix::net::accept(&listener).unwrap();
    assert!(!hear(&caller).is_empty(), "the request");
    for answer in answers {
        say(&caller, answer, &[]);
    }
    drop(caller);
    let event = stage
        .node
        .event(|event| matches!(event, ConnectionEvent::Rejected { .. }));
    let ConnectionEvent::Rejected { qp: of, reason, .. } = event else {
        unreachable!("just matched")
    };
    assert_eq!(of, qp);
    // The queue pair can try again.
    let mut server = Node::new(ShmOptions::default());
    drop(listener);
    server.device.listen(&stage.address()).unwrap();
    let theirs = server.queue_pair(None);
    stage
        .node
        .device
        .connect(qp, &stage.address(), b"")
        .unwrap();
    server.answer(theirs);
    stage
        .node
        .event(|event| matches!(event, ConnectionEvent::Established { .. }));
    reason
}

#[test]
fn a_server_of_another_version_is_understood_when_it_rejects_and_named_when_it_does_not() {
    assert_eq!(
        called(&[packet(77, 3, b"you are too old")]),
        "you are too old"
    );
    let reason = called(&[packet(77, 2, &[0; 64])]);
    assert!(
        reason.contains("version 77") && reason.contains("version 2"),
        "{reason}"
    );
}

#[test]
fn a_server_that_speaks_something_else_or_hangs_up_rejects() {
    assert!(called(&[b"HTTP/1.1 400 Bad Request".to_vec()]).contains("does not speak"));
    assert!(called(&[packet(VERSION, 2, b"")]).contains("malformed"));
    assert!(called(&[]).contains("hung up"));
}

/// A node that calls, and a middleman that hands its request to a real server and the answer back.
struct Middle {
    stage: Stage,
    qp: stonecast_fabric::QueuePair,
    _server: Node,
    /// The middleman's end of the caller's connection.
    caller: OwnedFd,
}

fn middle() -> Middle {
    let stage = Stage::new(false);
    let listener = packet_socket();
    rustix::net::bind(&listener, &stage.socket_address()).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    let mut server = Node::new(ShmOptions::default());
    let real = stage.folder.path().join("real");
    server
        .device
        .listen(&format!("shm:{}", real.display()))
        .unwrap();
    let qp = stage.node.queue_pair(None);
    stage
        .node
        .device
        .connect(qp, &stage.address(), b"")
        .unwrap();
    let caller = rustix::net::accept(&listener).unwrap();
    let onward = packet_socket();
    rustix::net::connect(&onward, &SocketAddrUnix::new(&real).unwrap()).unwrap();
    hand_on(&caller, &onward);
    let theirs = server.queue_pair(None);
    server.answer(theirs);
    hand_on(&onward, &caller);
    Middle {
        stage,
        qp,
        _server: server,
        caller,
    }
}

impl Middle {
    /// The cause of the connection's end, once established.
    fn cause(&mut self) -> DisconnectCause {
        self.stage
            .node
            .event(|event| matches!(event, ConnectionEvent::Established { .. }));
        let event = self
            .stage
            .node
            .event(|event| matches!(event, ConnectionEvent::Disconnected { .. }));
        let ConnectionEvent::Disconnected { qp, cause } = event else {
            unreachable!("just matched")
        };
        assert_eq!(qp, self.qp);
        cause
    }
}

/// A connected peer whose control thread sends nonsense.
#[test]
fn nonsense_after_the_handshake_ends_the_connection() {
    let mut middle = middle();
    say(&middle.caller, b"nonsense", &[]);
    assert_eq!(middle.cause(), DisconnectCause::QueuePairError);
}

/// Needs the phase to change with the acceptance itself: the device has not looked at the acceptance when the peer
/// dies.
#[test]
fn a_peer_that_dies_right_after_it_accepted_is_noticed() {
    let mut middle = middle();
    middle.caller = packet_socket();
    // Lets the control thread see both before the device checks.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(middle.cause(), DisconnectCause::PeerDied);
}

fn hand_on(from: &OwnedFd, to: &OwnedFd) {
    let mut buffer = [0; 8192];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let received =
        rustix::net::recvmsg(from, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let files: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            rustix::net::RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    say(to, &buffer[..received.bytes], &borrowed);
}
