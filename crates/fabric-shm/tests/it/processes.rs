//! Peers in processes of their own: killed at random moments, idle, asleep.
//!
//! The test binary runs itself again as the peer; environment variables choose the part that it plays.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;
use stonecast_base::random_from_seed;
use stonecast_fabric::{
    ConnectionEvent, Device, DisconnectCause, MultiPacketOptions, Opcode, Operation, QueuePair,
    ReceiveQueue, SharedReceiveQueueOptions, Status,
};
use stonecast_fabric_shm::ShmOptions;

use crate::node::{Node, place};

const PART: &str = "STONECAST_TEST_PART";
const ADDRESS: &str = "STONECAST_TEST_ADDRESS";
/// Clients of an idle server.
const IDLE_CLIENTS: usize = 10;

struct Peer(Child);

impl Peer {
    fn start(part: &str, address: &str) -> Self {
        let mut command =
            Command::new(std::env::current_exe().expect("the test binary has a path"));
        command.args([
            "--exact",
            "processes::plays_its_part",
            "--nocapture",
            "--test-threads=1",
        ]);
        command
            .env(PART, part)
            .env(ADDRESS, address)
            .stdout(Stdio::piped());
        Self(command.spawn().expect("the test binary runs again"))
    }

    /// The number that it printed behind `key`, once it has ended by itself.
    fn said(mut self, key: &str) -> u64 {
        let mut output = String::new();
        self.0
            .stdout
            .take()
            .expect("piped")
            .read_to_string(&mut output)
            .expect("text");
        assert!(
            self.0.wait().expect("a child").success(),
            "the peer failed: {output}"
        );
        let said = output.lines().find_map(|line| {
            line.split_once(key)?
                .1
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        });
        said.unwrap_or_else(|| panic!("the peer prints {key}: {output}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Fails if the peer has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test but the peers of the other tests: does nothing unless another test started it.
#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let address = std::env::var(ADDRESS).expect("the test passes its address");
    match part.as_str() {
        "load" => load(&address),
        "echo" => echo(&address, ShmOptions::default()),
        "echo as a stranger" => echo(
            &address,
            ShmOptions {
                copying_only: true,
                ..ShmOptions::default()
            },
        ),
        "idle server" => idle_server(&address),
        "idle clients" => idle_clients(&address),
        "sleeper" => {
            let mut node = Node::new(ShmOptions::default());
            node.call(&address);
            node.wait("the test's end", |_| None)
        }
        other => panic!("no such part: {other}"),
    }
}

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder for sockets");
    let address = format!("shm:{}", folder.path().join("socket").display());
    (folder, address)
}

/// Every operation of a client, as fast as possible, on two connections.
fn load(address: &str) {
    let mut node = Node::new(ShmOptions::default());
    let (ordinary, answer) = node.call(address);
    let (appending, _) = node.call(address);
    for round in 1u64.. {
        let at = |offset| place(&answer, offset);
        for word in 0..64 {
            node.set_word(word * 8, round);
        }
        node.post(
            ordinary,
            Operation::Write {
                local: node.local(0, 512),
                remote: at(0),
            },
            false,
        );
        let add = Operation::FetchAndAdd {
            local: node.local(1024, 8),
            remote: at(512),
            add: 1,
        };
        node.post(ordinary, add, false);
        node.post(
            ordinary,
            Operation::Send {
                local: node.local(0, 512),
            },
            true,
        );
        let number = Operation::WriteWithImmediate {
            local: node.local(0, 8),
            remote: at(520),
            immediate: round as u32,
        };
        node.post(ordinary, number, true);
        node.post(
            appending,
            Operation::Send {
                local: node.local(0, 8 * (round % 60) as u32),
            },
            true,
        );
        for _ in 0..3 {
            let completion = node.completion();
            assert_eq!(completion.status, Status::Success);
        }
        node.post(
            ordinary,
            Operation::Read {
                local: node.local(2048, 512),
                remote: at(0),
            },
            true,
        );
        node.completion();
    }
}

/// Clients die at random moments under load. The server sleeps whenever it can; each death wakes the server, is
/// reported once per connection, and disturbs nothing: messages are whole and in order until then, and buffers come
/// back. Needs the check of the reason why an answer of the control thread could not be sent: without it one death in a
/// thousand is reported as a failure.
#[test]
fn a_server_survives_the_deaths_of_its_clients_at_random_moments() {
    let seed = 20_261_121;
    let random = &mut random_from_seed(seed);
    let (_folder, address) = folder();
    let mut server = Node::new(ShmOptions::default());
    server.device.listen(&address).unwrap();
    let options = SharedReceiveQueueOptions {
        capacity: 32,
        multi_packet: Some(MultiPacketOptions::telling(64)),
        in_order: false,
    };
    let srq = server.device.create_shared_receive_queue(options).unwrap();
    for buffer in 0..16 {
        server.receive(
            ReceiveQueue::Shared(srq),
            1000 + buffer,
            32_768 + buffer * 2048,
            2048,
        );
    }
    let mut slowest = Duration::ZERO;
    let mut rounds = 0;
    for death in 0..60 {
        let peer = Peer::start("load", &address);
        let (ordinary, appending) = (server.queue_pair(None), server.queue_pair(Some(srq)));
        for buffer in 0..16 {
            server.receive(
                ReceiveQueue::Own(ordinary),
                buffer,
                8192 + buffer * 512,
                512,
            );
        }
        server.answer(ordinary);
        server.answer(appending);
        let lifetime = Duration::from_micros(random.random_range(0..20_000));
        let born = Instant::now();
        let mut round = 0;
        let mut peer = Some(peer);
        let mut died = None;
        let mut ends = 0;
        server.wait("the end of both connections", |server| {
            if born.elapsed() >= lifetime
                && let Some(mut peer) = peer.take()
            {
                died = Some(Instant::now());
                peer.0.kill().expect("a child can be killed");
            }
            for completion in std::mem::take(&mut server.completions) {
                serve(server, &completion, ordinary, &mut round);
            }
            let mut consumed = Vec::new();
            server.device.poll_consumed(srq, &mut consumed);
            for buffer in consumed {
                server.receive(
                    ReceiveQueue::Shared(srq),
                    buffer,
                    32_768 + (buffer - 1000) * 2048,
                    2048,
                );
            }
            for event in std::mem::take(&mut server.events) {
                match event {
                    ConnectionEvent::Disconnected {
                        cause: DisconnectCause::PeerDied,
                        ..
                    } => ends += 1,
                    other => panic!("seed {seed}, death {death}: unexpected: {other:?}"),
                }
            }
            (ends == 2).then_some(())
        });
        slowest = slowest.max(died.expect("it was killed").elapsed());
        rounds += round;
        server.device.destroy_queue_pair(ordinary).unwrap();
        server.device.destroy_queue_pair(appending).unwrap();
    }
    println!("60 deaths after {rounds} rounds, the slowest noticed after {slowest:?}");
    assert!(
        rounds > 60,
        "the clients had work to be killed in: {rounds}"
    );
}

fn serve(
    server: &Node,
    completion: &stonecast_fabric::WorkCompletion,
    ordinary: QueuePair,
    round: &mut u64,
) {
    match (completion.status, completion.opcode) {
        (Status::WorkRequestFlushed, _) => {
            assert_eq!(completion.qp, ordinary, "shared buffers are not flushed")
        }
        (Status::Success, Opcode::Receive) if completion.qp == ordinary => {
            *round += 1;
            let start = 8192 + completion.wr_id * 512;
            assert!(
                (0..64).all(|word| server.word(start + word * 8) == *round),
                "the message is whole and in order"
            );
            server.receive(ReceiveQueue::Own(ordinary), completion.wr_id, start, 512);
        }
        (Status::Success, Opcode::ReceiveWriteWithImmediate) => {
            assert_eq!(u64::from(completion.immediate), *round);
            assert!(
                server.word(520) >= *round,
                "the bytes came before the immediate"
            );
            server.receive(
                ReceiveQueue::Own(ordinary),
                completion.wr_id,
                8192 + completion.wr_id * 512,
                512,
            );
        }
        (Status::Success, Opcode::Receive) => {
            let start =
                32_768 + (completion.wr_id - 1000) * 2048 + u64::from(completion.placement.offset);
            let words: Vec<u64> = (0..u64::from(completion.placement.size) / 8)
                .map(|word| server.word(start + word * 8))
                .collect();
            assert!(
                words.windows(2).all(|pair| pair[0] == pair[1]),
                "the appended message is whole: {words:?}"
            );
        }
        other => panic!("unexpected: {other:?}"),
    }
}

/// Returns every message to its sender until the connection ends.
fn echo(address: &str, options: ShmOptions) {
    let mut node = Node::new(options);
    let (qp, _) = node.call(address);
    node.receive(ReceiveQueue::Own(qp), 0, 0, 64);
    loop {
        let completion = node.completion();
        if completion.status != Status::Success {
            return;
        }
        if completion.opcode == Opcode::Receive {
            node.receive(ReceiveQueue::Own(qp), 0, 0, 64);
            node.post(
                qp,
                Operation::Send {
                    local: node.local(0, completion.placement.size),
                },
                false,
            );
        }
    }
}

/// Both sides sleep for a minute after each message. A lost wake-up would exceed the patience.
fn play_ping_pong(part: &str, options: ShmOptions) {
    let (_folder, address) = folder();
    let mut node = Node::new(options);
    node.device.listen(&address).unwrap();
    let _peer = Peer::start(part, &address);
    let qp = node.queue_pair(None);
    for buffer in 0..2 {
        node.receive(ReceiveQueue::Own(qp), buffer, 0, 64);
    }
    node.answer(qp);
    for round in 1..=3000 {
        node.set_word(64, round);
        // Every other message is acknowledged with a completion, which is a second reason for a wake-up.
        let signalled = round.is_multiple_of(2);
        node.post(
            qp,
            Operation::Send {
                local: node.local(64, 8),
            },
            signalled,
        );
        for _ in 0..if signalled { 2 } else { 1 } {
            let completion = node.completion();
            assert_eq!(completion.status, Status::Success);
            if completion.opcode == Opcode::Receive {
                assert_eq!(node.word(0), round);
                node.receive(ReceiveQueue::Own(qp), completion.wr_id, 0, 64);
            }
        }
    }
}

/// Needs both full fences and the change of the bell; without the ring after acknowledgements the signalled messages
/// hang.
#[test]
fn no_wake_up_is_lost_between_two_sleepers() {
    play_ping_pong("echo", ShmOptions::default());
}

/// Strangers wake each other through their control threads.
#[test]
fn no_wake_up_is_lost_between_two_strangers() {
    play_ping_pong(
        "echo as a stranger",
        ShmOptions {
            copying_only: true,
            ..ShmOptions::default()
        },
    );
}

/// Sleeping on a bell for a minute, woken by a death. Needs the ring of the control thread.
#[test]
fn the_death_of_a_peer_wakes_a_sleeper() {
    let (_folder, address) = folder();
    let mut node = Node::new(ShmOptions::default());
    node.device.listen(&address).unwrap();
    let mut peer = Peer::start("sleeper", &address);
    let qp = node.queue_pair(None);
    node.answer(qp);
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        peer.0.kill().expect("a child can be killed");
    });
    let event = node.event(|event| matches!(event, ConnectionEvent::Disconnected { .. }));
    assert_eq!(
        event,
        ConnectionEvent::Disconnected {
            qp,
            cause: DisconnectCause::PeerDied
        }
    );
    killer.join().unwrap();
}

/// Processor time of this process so far, in nanoseconds.
fn processor_time_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn idle_server(address: &str) {
    let mut node = Node::new(ShmOptions::default());
    node.device.listen(address).expect("the address is free");
    for _ in 0..IDLE_CLIENTS {
        let qp = node.queue_pair(None);
        node.receive(ReceiveQueue::Own(qp), 0, 0, 64);
        node.answer(qp);
    }
    // Parks no longer than the executor of real providers does.
    let start = (Instant::now(), processor_time_ns());
    while start.0.elapsed() < Duration::from_secs(2) {
        node.pump();
        stonecast_fabric::Park::park(&*node.device, 50_000_000);
    }
    assert_eq!(
        (node.completions.len(), node.events.len()),
        (0, 0),
        "nothing happens"
    );
    let used = processor_time_ns() - start.1;
    let per_mille = used * 1000 / start.0.elapsed().as_nanos() as u64;
    println!("\nper mille of a core: {per_mille}");
}

fn idle_clients(address: &str) {
    let mut nodes: Vec<Node> = (0..IDLE_CLIENTS)
        .map(|_| Node::new(ShmOptions::default()))
        .collect();
    let connections: Vec<QueuePair> = nodes.iter_mut().map(|node| node.call(address).0).collect();
    for (node, qp) in nodes.iter_mut().zip(connections) {
        node.event(
            |event| matches!(event, ConnectionEvent::Disconnected { qp: of, .. } if *of == qp),
        );
    }
}

/// The use of a resource, not a speed: it is the same on a slow machine.
#[test]
fn an_idle_server_with_ten_idle_clients_uses_almost_no_processor_time() {
    let (_folder, address) = folder();
    let server = Peer::start("idle server", &address);
    let _clients = Peer::start("idle clients", &address);
    let per_mille = server.said("per mille of a core:");
    println!(
        "an idle server with {IDLE_CLIENTS} idle clients uses {per_mille} per mille of a core"
    );
    assert!(per_mille < 20, "{per_mille} per mille of a core");
}
