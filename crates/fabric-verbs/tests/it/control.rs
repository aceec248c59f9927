//! The control plane between threads of this process, and against foreign peers. No RDMA device takes part: a number
//! stands for a queue pair.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use stonecast_fabric_verbs::control::{
    BackOff, ControlError, ControlEvent, ControlOptions, ControlPlane, EndCause, Key, KeyRing,
    LeaseTerms, LinkId, Offer, PeerProfile,
};
use stonecast_fabric_verbs::{ControlAddress, Endpoint, Gid, Transport};
use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

/// The time that anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// A queue pair number that must not be seen by strangers.
const SECRET: u32 = 0x00ab_cdef;

fn key(byte: u8) -> Key {
    Key::new([byte; 32])
}

fn endpoint(queue_pair: u32) -> Endpoint {
    Endpoint {
        queue_pair,
        first_packet: 0x12_3456,
        lid: 0,
        gid: Gid([9; 16]),
        mtu: 3,
        reads_in: 16,
        reads_out: 16,
        send_capacity: 64,
        rnr_retry_count: 6,
        rnr_retry_delay_ns: 1_000_000,
    }
}

fn offer(queue_pair: u32, private_data: &[u8]) -> Offer {
    Offer {
        endpoint: endpoint(queue_pair),
        private_data: private_data.to_vec(),
    }
}

fn profile(persistence_domain: PersistenceDomain) -> PeerProfile {
    PeerProfile {
        platform: DeclaredPlatform {
            persistence_domain,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        transport: Transport::Roce,
        flush_global: true,
        flush_persistent: false,
        atomic_write: false,
    }
}

/// A control plane with its log.
struct Side {
    plane: ControlPlane,
    lines: Arc<Mutex<Vec<String>>>,
    events: Vec<ControlEvent>,
}

impl Side {
    fn new(ring: KeyRing, change: impl FnOnce(&mut ControlOptions)) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = lines.clone();
        let mut options = ControlOptions {
            keys: ring,
            terms: LeaseTerms {
                duration: Duration::from_secs(10),
                ..LeaseTerms::default()
            },
            profile: profile(PersistenceDomain::Dmp),
            back_off: BackOff {
                first: Duration::from_millis(5),
                patience: Duration::from_millis(200),
                ..BackOff::default()
            },
            handshake_patience: Duration::from_secs(10),
            strangers_max: 8,
            log: Arc::new(move |line| log.lock().expect("no holder panics").push(line.to_owned())),
        };
        change(&mut options);
        Self {
            plane: ControlPlane::start(options).expect("a control plane"),
            lines,
            events: Vec::new(),
        }
    }

    fn server() -> (Self, SocketAddr) {
        Self::server_with(|_| {})
    }

    fn server_with(change: impl FnOnce(&mut ControlOptions)) -> (Self, SocketAddr) {
        let server = Self::new(KeyRing::single("a", key(1)), change);
        let place = server
            .plane
            .listen(&"verbs:127.0.0.1:0".parse().expect("an address"))
            .expect("a free port");
        (server, place)
    }

    fn client(name: &str, byte: u8) -> Self {
        Self::new(KeyRing::single(name, key(byte)), |_| {})
    }

    /// The next event that `wanted` accepts.
    fn wait<T>(&mut self, what: &str, mut wanted: impl FnMut(&ControlEvent) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.events
                .extend(std::iter::from_fn(|| self.plane.poll_event()));
            if let Some(position) = self.events.iter().position(|event| wanted(event).is_some()) {
                return wanted(&self.events.remove(position)).expect("just wanted");
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what}; there are {:?}",
                self.events
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn request(&mut self) -> (LinkId, u32, Vec<u8>) {
        self.wait("a request", |event| match event {
            ControlEvent::Request {
                link,
                endpoint,
                private_data,
                ..
            } => Some((*link, endpoint.queue_pair, private_data.clone())),
            _ => None,
        })
    }

    fn refusal(&mut self) -> String {
        self.wait("a refusal", |event| match event {
            ControlEvent::Refused { error, .. } => Some(error.to_string()),
            _ => None,
        })
    }

    fn end(&mut self, of: LinkId) -> EndCause {
        self.wait("the end of a connection", |event| match event {
            ControlEvent::Ended { link, cause } if *link == of => Some(*cause),
            _ => None,
        })
    }

    /// Waits until the log has a line with all of `words`.
    fn logged(&self, words: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let lines = self.lines.lock().expect("no holder panics").clone();
            if lines
                .iter()
                .any(|line| words.iter().all(|word| line.contains(word)))
            {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "no line with {words:?}: {lines:?}"
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn call(&mut self, place: SocketAddr, what: Offer) -> LinkId {
        self.plane
            .call(&address(place), what)
            .expect("a call begins")
    }
}

fn address(place: SocketAddr) -> ControlAddress {
    format!("verbs:{place}").parse().expect("an address")
}

/// A connected client and server, and the links on both sides.
fn connected(server: &mut Side, place: SocketAddr, client: &mut Side) -> (LinkId, LinkId) {
    let call = client.call(place, offer(SECRET, b"hello"));
    let (request, _, _) = server.request();
    server.plane.accept(request, offer(SECRET + 1, b"welcome"));
    client.wait("an acceptance", |event| match event {
        ControlEvent::Accepted { link, .. } if *link == call => Some(()),
        _ => None,
    });
    client.plane.ready(call);
    server.wait("a ready", |event| match event {
        ControlEvent::Ready { link } if *link == request => Some(()),
        _ => None,
    });
    (request, call)
}

/// Every byte that a peer sends until it closes.
fn read_to_the_end(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut found = Vec::new();
    let mut buffer = [0; 4096];
    // A reset is an end, too.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        found.extend_from_slice(&buffer[..count]);
    }
    found
}

/// Checks that a holder of the key can still connect, whatever strangers did.
fn others_are_served(server: &mut Side, place: SocketAddr) {
    let mut client = Side::client("a", 1);
    connected(server, place, &mut client);
}

#[test]
fn both_sides_learn_the_facts_that_they_need_to_connect() {
    let (mut server, place) = Side::server();
    let mut client = Side::new(KeyRing::single("a", key(1)), |options| {
        options.profile = profile(PersistenceDomain::Wsp)
    });
    let call = client.call(place, offer(7, b"hello"));
    let (link, peer, asked) = server.wait("a request", |event| match event {
        ControlEvent::Request {
            link,
            peer,
            key,
            endpoint,
            profile,
            private_data,
        } => {
            assert_eq!(key, "a");
            Some((
                *link,
                (peer.clone(), *endpoint, *profile),
                private_data.clone(),
            ))
        }
        _ => None,
    });
    assert_eq!(asked, b"hello");
    assert!(peer.0.starts_with("a at 127.0.0.1"), "{}", peer.0);
    assert_eq!(
        (peer.1, peer.2),
        (endpoint(7), profile(PersistenceDomain::Wsp))
    );
    server.plane.accept(link, offer(8, b"welcome"));
    let found = client.wait("an acceptance", |event| match event {
        ControlEvent::Accepted {
            link,
            endpoint,
            profile,
            private_data,
        } if *link == call => Some((*endpoint, *profile, private_data.clone())),
        _ => None,
    });
    assert_eq!(
        found,
        (
            endpoint(8),
            profile(PersistenceDomain::Dmp),
            b"welcome".to_vec()
        )
    );
}

#[test]
fn a_rejection_carries_its_reason() {
    let (mut server, place) = Side::server();
    let mut client = Side::client("a", 1);
    client.call(place, offer(7, b""));
    let (request, _, _) = server.request();
    server.plane.reject(request, "the house is full".into());
    assert_eq!(client.refusal(), "the house is full");
    others_are_served(&mut server, place);
}

#[test]
fn a_goodbye_tells_its_cause_and_a_death_has_none() {
    let (mut server, place) = Side::server();
    let mut client = Side::client("a", 1);
    for cause in [EndCause::Requested, EndCause::QueuePairError] {
        let (request, call) = connected(&mut server, place, &mut client);
        client.plane.hang_up(call, cause);
        assert_eq!(server.end(request), cause);
    }
    let (request, _) = connected(&mut server, place, &mut client);
    client.plane.abandon();
    assert_eq!(server.end(request), EndCause::Died);
    server.logged(&["lost a at 127.0.0.1", "closed"]);
}

#[test]
fn dropping_a_plane_says_goodbye_to_all_peers() {
    let (mut server, place) = Side::server();
    let mut client = Side::client("a", 1);
    let (request, _) = connected(&mut server, place, &mut client);
    drop(client);
    assert_eq!(server.end(request), EndCause::Requested);
}

/// Needs the check of the magic in `take_greeting`: without it these strangers wait until the time of the handshake is
/// over.
#[test]
fn another_protocol_is_refused_at_once_and_told_nothing() {
    let (mut server, place) = Side::server();
    for (bytes, words) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "47, 45"),
        (b"*1\r\n$4\r\nPING\r\n", "2a, 31"),
        (&[0xff; 64], "ff, ff"),
    ] {
        let mut stranger = TcpStream::connect(place).expect("the server listens");
        stranger.write_all(bytes).expect("it takes bytes");
        assert_eq!(
            read_to_the_end(&mut stranger),
            b"",
            "a peer that speaks another protocol gets no answer"
        );
        server.logged(&["refused 127.0.0.1", "another protocol", words]);
    }
    others_are_served(&mut server, place);
}

#[test]
fn garbage_behind_a_good_greeting_is_refused() {
    let (mut server, place) = Side::server();
    // A frame of 48 bytes that no key made, and a frame longer than any message.
    for tail in [
        [&48u16.to_le_bytes()[..], &[7; 48]].concat(),
        [&u16::MAX.to_le_bytes()[..], &[7; 64]].concat(),
    ] {
        let mut stranger = TcpStream::connect(place).expect("the server listens");
        stranger
            .write_all(&[b"STONEVRB\x01\x00\x01\x00a".as_slice(), &tail].concat())
            .expect("it takes bytes");
        let told = read_to_the_end(&mut stranger);
        assert!(told.len() <= 12, "at most a verdict, no endpoint: {told:?}");
    }
    server.logged(&["refused 127.0.0.1", "does not hold the key of a"]);
    server.logged(&["refused 127.0.0.1", "longer than any message"]);
    others_are_served(&mut server, place);
}

#[test]
fn another_version_is_refused_and_named_on_both_sides() {
    let (mut server, place) = Side::server();
    let mut stranger = TcpStream::connect(place).expect("the server listens");
    stranger
        .write_all(b"STONEVRB\x09\x00\x01\x00a")
        .expect("it takes bytes");
    assert_eq!(read_to_the_end(&mut stranger), b"STONEVRB\x01\x00\x01\x00");
    server.logged(&["refused 127.0.0.1", "version 9", "this side speaks 1"]);
    others_are_served(&mut server, place);

    // The reverse: a client that finds a newer server.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut client = Side::client("a", 1);
    client.call(
        listener.local_addr().expect("it is bound"),
        offer(SECRET, b""),
    );
    let (mut found, _) = listener.accept().expect("the client comes");
    found
        .write_all(b"STONEVRB\x02\x00\x01\x00")
        .expect("it takes bytes");
    assert!(client.refusal().contains("version 2"));
}

/// Needs the key in `builder`: with a key that everyone has, the client would be admitted.
#[test]
fn a_wrong_key_and_an_unknown_name_are_refused_alike_and_learn_nothing() {
    let (mut server, place) = Side::server();
    for (name, byte) in [("a", 2), ("nobody", 1)] {
        let mut client = Side::client(name, byte);
        client.call(place, offer(SECRET, b""));
        let refusal = client.refusal();
        assert!(
            refusal.contains(&format!("does not accept the key of {name}")),
            "{refusal}"
        );
        server.logged(&[
            "refused 127.0.0.1",
            &format!("does not hold the key of {name}"),
        ]);
    }
    assert!(
        server.plane.poll_event().is_none(),
        "the program does not learn of them"
    );
    others_are_served(&mut server, place);
}

#[test]
fn a_client_tells_nothing_to_a_server_without_its_key() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut client = Side::client("a", 1);
    client.call(
        listener.local_addr().expect("it is bound"),
        offer(SECRET, b"a secret"),
    );
    let (mut stream, _) = listener.accept().expect("the client comes");
    // A welcome that no key made.
    let forged = [
        b"STONEVRB\x01\x00\x00\x00".as_slice(),
        &112u16.to_le_bytes(),
        &[7; 112],
    ]
    .concat();
    stream.write_all(&forged).expect("it takes bytes");
    assert!(client.refusal().contains("does not open"));
    let said = read_to_the_end(&mut stream);
    assert_eq!(
        said.len(),
        b"STONEVRB\x01\x00\x01\x00a".len() + 2 + 48,
        "greeting and first message, nothing else"
    );
    assert!(!said.windows(4).any(|window| window == SECRET.to_le_bytes()));
}

/// A middleman between a client and a server that records the client's bytes.
fn record(place: SocketAddr) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let between = listener.local_addr().expect("it is bound");
    let recorder = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("the client comes");
        let mut server = TcpStream::connect(place).expect("the server listens");
        let (mut back, mut to_client) = (
            server.try_clone().expect("a copy"),
            client.try_clone().expect("a copy"),
        );
        thread::spawn(move || std::io::copy(&mut back, &mut to_client));
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            said.extend_from_slice(&buffer[..count]);
            if server.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Both);
        said
    });
    (between, recorder)
}

/// Needs fresh keys for each session. The recording is valid up to its first sealed message, and no further.
#[test]
fn a_replayed_connection_is_refused() {
    let (mut server, place) = Side::server();
    let (between, recorder) = record(place);
    let mut client = Side::client("a", 1);
    let (request, _) = connected(&mut server, between, &mut client);
    drop(client);
    server.end(request);
    let said = recorder
        .join()
        .expect("the recorder ends with the connection");
    let mut replayer = TcpStream::connect(place).expect("the server listens");
    replayer.write_all(&said).expect("it takes bytes");
    let answer = read_to_the_end(&mut replayer);
    server.logged(&["refused a at 127.0.0.1", "replayed"]);
    assert!(
        !answer
            .windows(4)
            .any(|window| window == (SECRET + 1).to_le_bytes()),
        "no endpoint in clear text"
    );
    assert!(
        server.plane.poll_event().is_none(),
        "the program does not learn of it"
    );
    others_are_served(&mut server, place);
}

/// Needs the lifetime in `Ticket::redeem`. The middleman holds back the client's messages after the handshake.
#[test]
fn a_ticket_that_is_used_too_late_is_refused_with_its_lifetime() {
    let (mut server, place) =
        Side::server_with(|options| options.terms.ticket_lifetime = Duration::from_secs(1));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut client = Side::client("a", 1);
    client.call(
        listener.local_addr().expect("it is bound"),
        offer(SECRET, b""),
    );
    let (mut from_client, _) = listener.accept().expect("the client comes");
    let mut to_server = TcpStream::connect(place).expect("the server listens");
    let (mut back, mut to_client) = (
        to_server.try_clone().expect("a copy"),
        from_client.try_clone().expect("a copy"),
    );
    let slow = thread::spawn(move || {
        let mut hello = vec![0; 13 + 2 + 48];
        from_client.read_exact(&mut hello).expect("a greeting");
        to_server.write_all(&hello).expect("it takes bytes");
        // The connect message: longer in transit than the lifetime of the ticket.
        let mut buffer = [0; 4096];
        let count = from_client.read(&mut buffer).expect("a connect");
        thread::sleep(Duration::from_millis(1500));
        to_server
            .write_all(&buffer[..count])
            .expect("it takes bytes");
        from_client
    });
    thread::spawn(move || std::io::copy(&mut back, &mut to_client));
    let refusal = client.refusal();
    assert!(
        refusal.contains("ticket expired") && refusal.contains("1000 ms"),
        "{refusal}"
    );
    server.logged(&["refused a at 127.0.0.1", "ticket expired"]);
    assert!(
        server.plane.poll_event().is_none(),
        "the program does not learn of it"
    );
    drop(slow.join());
    let mut other = Side::client("a", 1);
    other.call(place, offer(SECRET, b""));
    assert_eq!(server.request().1, SECRET, "a client in time is admitted");
}

/// Needs `LeaseTerms::check` in `Engine::heard`.
#[test]
fn a_request_beyond_the_lease_is_refused_with_the_granted_number() {
    let (mut server, place) = Side::server_with(|options| {
        options.terms = LeaseTerms {
            connections_max: 2,
            send_capacity_max: 64,
            reads_max: 16,
            ..options.terms
        };
    });
    let mut client = Side::client("a", 1);
    let greedy = Offer {
        endpoint: Endpoint {
            send_capacity: 65,
            ..endpoint(7)
        },
        private_data: Vec::new(),
    };
    client.call(place, greedy);
    let refusal = client.refusal();
    assert!(
        refusal.contains("65 outstanding work requests") && refusal.contains("grants 64"),
        "{refusal}"
    );
    server.logged(&["refused a at 127.0.0.1", "grants 64"]);
    let greedy = Offer {
        endpoint: Endpoint {
            reads_out: 17,
            ..endpoint(7)
        },
        private_data: Vec::new(),
    };
    client.call(place, greedy);
    assert!(client.refusal().contains("17 concurrent READs"));
    let first = connected(&mut server, place, &mut client);
    connected(&mut server, place, &mut client);
    client.call(place, offer(7, b""));
    assert!(client.refusal().contains("3 connections"));
    // A freed place can be taken.
    client.plane.hang_up(first.1, EndCause::Requested);
    server.end(first.0);
    connected(&mut server, place, &mut client);
}

/// A connection whose two directions can be cut without either side noticing.
fn silent_middle(place: SocketAddr) -> (SocketAddr, Arc<Mutex<bool>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let between = listener.local_addr().expect("it is bound");
    let cut = Arc::new(Mutex::new(false));
    let shared = cut.clone();
    thread::spawn(move || {
        let (client, _) = listener.accept().expect("the client comes");
        let server = TcpStream::connect(place).expect("the server listens");
        for (mut from, mut to) in [
            (
                client.try_clone().expect("a copy"),
                server.try_clone().expect("a copy"),
            ),
            (
                server.try_clone().expect("a copy"),
                client.try_clone().expect("a copy"),
            ),
        ] {
            let cut = shared.clone();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    if !*cut.lock().expect("no holder panics")
                        && to.write_all(&buffer[..count]).is_err()
                    {
                        break;
                    }
                }
                // Held open: a silent peer has not closed anything.
                thread::sleep(PATIENCE);
            });
        }
    });
    (between, cut)
}

/// Needs the lease in `Link::tick`: without it a silent peer counts as alive forever.
#[test]
fn a_silent_peer_is_dead_when_its_lease_has_expired_and_not_before() {
    let terms = LeaseTerms {
        duration: Duration::from_millis(500),
        ..LeaseTerms::default()
    };
    let (mut server, place) = Side::server_with(|options| options.terms = terms);
    let (between, cut) = silent_middle(place);
    let mut client = Side::client("a", 1);
    let (request, call) = connected(&mut server, between, &mut client);
    // Several leases pass with heartbeats alone.
    thread::sleep(4 * terms.duration);
    assert!(
        server.plane.poll_event().is_none() && client.plane.poll_event().is_none(),
        "heartbeats keep a lease"
    );
    *cut.lock().expect("no holder panics") = true;
    assert_eq!(server.end(request), EndCause::Died);
    assert_eq!(client.end(call), EndCause::Died);
    server.logged(&["lost a at 127.0.0.1", "500 ms", "lease"]);
    others_are_served(&mut server, place);
}

/// Needs the deadline of strangers in `Link::tick`.
#[test]
fn a_peer_that_does_not_prove_its_identity_in_time_is_dropped() {
    let (server, place) =
        Side::server_with(|options| options.handshake_patience = Duration::from_millis(50));
    let mut stranger = TcpStream::connect(place).expect("the server listens");
    stranger.write_all(b"STONE").expect("it takes bytes");
    assert_eq!(read_to_the_end(&mut stranger), b"");
    server.logged(&["refused 127.0.0.1", "within 50 ms"]);
}

/// Needs `strangers_max` in `Engine::welcome_strangers`.
#[test]
fn peers_that_only_hold_connections_do_not_keep_others_out() {
    let (mut server, place) = Side::server();
    let idle: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(place).expect("the server listens"))
        .collect();
    server.logged(&["dropped 127.0.0.1", "too many"]);
    others_are_served(&mut server, place);
    drop(idle);
}

#[test]
fn a_server_that_starts_late_is_found_by_retries() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let place = listener.local_addr().expect("it is bound");
    drop(listener);
    let mut client = Side::new(KeyRing::single("a", key(1)), |options| {
        options.back_off = BackOff {
            patience: PATIENCE,
            ..options.back_off
        };
    });
    client.call(place, offer(7, b""));
    thread::sleep(Duration::from_millis(100));
    let mut server = Side::new(KeyRing::single("a", key(1)), |_| {});
    server
        .plane
        .listen(&address(place))
        .expect("the port is free");
    assert_eq!(server.request().1, 7);
}

#[test]
fn a_missing_server_is_reported_with_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let place = listener.local_addr().expect("it is bound");
    drop(listener);
    let mut client = Side::client("a", 1);
    client.call(place, offer(7, b""));
    let refusal = client.refusal();
    assert!(
        refusal.contains("no server answers") && refusal.contains(&place.to_string()),
        "{refusal}"
    );
}

#[test]
fn without_a_key_no_server_is_called() {
    let (_server, place) = Side::server();
    let mut client = Side::new(KeyRing::default(), |_| {});
    client.call(place, offer(7, b""));
    let refused = client.wait("a refusal", |event| match event {
        ControlEvent::Refused { error, .. } => Some(matches!(error, ControlError::NoKey)),
        _ => None,
    });
    assert!(refused);
}

#[test]
fn an_address_in_use_is_refused_with_a_remedy() {
    let (server, place) = Side::server();
    let refused = server
        .plane
        .listen(&address(place))
        .expect_err("it is in use")
        .to_string();
    assert!(
        refused.contains("another process listens there"),
        "{refused}"
    );
}

/// Arbitrary bytes at every stage end that connection and nothing else.
#[test]
fn random_bytes_at_any_stage_disturb_no_other_connection() {
    let (mut server, place) = Side::server();
    let mut client = Side::client("a", 1);
    let (request, _) = connected(&mut server, place, &mut client);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..60usize {
        let mut bytes = if round % 2 == 0 {
            b"STONEVRB\x01\x00\x01\x00a".to_vec()
        } else {
            Vec::new()
        };
        for _ in 0..round * 7 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(state as u8);
        }
        let mut stranger = TcpStream::connect(place).expect("the server listens");
        let _ = stranger.write_all(&bytes);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        assert!(read_to_the_end(&mut stranger).len() <= 12, "round {round}");
    }
    assert!(
        server.plane.poll_event().is_none(),
        "the earlier connection still exists, and no peer was admitted"
    );
    server.plane.hang_up(request, EndCause::Requested);
    others_are_served(&mut server, place);
}
