//! Peers of another version of stonecast.

use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use stonecast::{Connector, Effect, ErrorKind};
use stonecast_fabric::{ConnectionEvent, Device, QueuePair, QueuePairOptions};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::limits::PROTOCOL_VERSION;

use crate::support::Place;

const FOR_EVER: Duration = Duration::from_secs(30);

/// The first bytes of both sides, in every version.
fn greeting(version: u32) -> Vec<u8> {
    let mut said = b"stonecdk".to_vec();
    said.extend_from_slice(&version.to_le_bytes());
    said
}

/// A device of shared memory with one queue pair.
fn endpoint() -> (Rc<ShmDevice>, QueuePair) {
    let device = ShmDevice::new(ShmOptions::default()).unwrap();
    let cq = device.create_completion_queue(16).unwrap();
    let qp = device
        .create_queue_pair(QueuePairOptions {
            send_cq: cq,
            receive_cq: cq,
            shared_receive_queue: None,
            windows: false,
            send_capacity: 4,
            receive_capacity: 4,
            rnr_retry_count: 1,
            rnr_retry_delay_ns: 1000,
        })
        .unwrap();
    (device, qp)
}

fn next_event(device: &ShmDevice) -> ConnectionEvent {
    let since = Instant::now();
    loop {
        if let Some(event) = device.poll_connection() {
            return event;
        }
        assert!(since.elapsed() < FOR_EVER, "nothing happens");
        thread::yield_now();
    }
}

/// The server accepts every client, but greets in another version.
#[test]
fn a_server_of_another_version_is_refused_with_both_versions() {
    for version in [PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let url = format!("shm:{}", socket.display());
        let address = url.clone();
        let (listening, is_listening) = mpsc::channel();
        let (over, is_over) = mpsc::channel::<()>();
        let server = thread::spawn(move || {
            let (device, qp) = endpoint();
            device.listen(&address).unwrap();
            listening.send(()).unwrap();
            let request = loop {
                if let ConnectionEvent::Request { request, .. } = next_event(&device) {
                    break request;
                }
            };
            // The welcome has the length of this version's welcome, so that only the number tells the two apart.
            let mut welcome = greeting(version);
            welcome.resize(80, 0);
            device.accept(request, qp, &welcome).unwrap();
            let _ = is_over.recv_timeout(FOR_EVER);
        });
        is_listening.recv_timeout(FOR_EVER).unwrap();
        let error = Connector::new(&url)
            .unwrap()
            .connect_blocking()
            .err()
            .unwrap();
        drop(over);
        server.join().unwrap();
        let said = error.to_string();
        let both = format!(
            "the server speaks protocol version {version} of the KV store, the client version {PROTOCOL_VERSION}; use the same \
             version of stonecast on both sides"
        );
        assert!(said.contains(&both), "{said}");
        assert!(said.contains(&socket.display().to_string()), "{said}");
        assert!(matches!(error.kind(), ErrorKind::Store(_)), "{error:?}");
        assert_eq!(error.effect(), Effect::None);
    }
}

#[test]
fn an_embedded_server_refuses_a_client_of_another_version_with_both_versions() {
    let place = Place::new();
    for version in [PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1] {
        let (device, qp) = endpoint();
        let mut hello = greeting(version);
        hello.resize(16, 0);
        device.connect(qp, &place.url(), &hello).unwrap();
        let ConnectionEvent::Rejected { reason, .. } = next_event(&device) else {
            panic!("a client of version {version} was accepted");
        };
        let both = format!(
            "the client speaks protocol version {version} of the KV store, the server version {PROTOCOL_VERSION}"
        );
        assert!(reason.starts_with(&both), "{reason}");
    }
}
