//! The memory of a gateway in a process of its own, with clients that request more than the bound.
//!
//! The bound is `--buffer-size` plus a quarter of it, and 64 MiB for everything else: the store, connections, stocks.

use std::io::Write as _;
use std::time::{Duration, Instant};

use stonecast_media::Durability;

use crate::idle::allow_files;
use crate::support::{Bounds, Client, Process, Reply, not_run, request};

/// The bytes that requests and replies may take.
const BUFFER_SIZE: usize = 64 << 20;
/// The bytes that the process may have under load, and the bytes that it may keep.
const PEAK_MAX: u64 = (BUFFER_SIZE as u64) * 5 / 4 + (64 << 20);
const KEPT_MAX: u64 = 32 << 20;
/// The longest wait of a client beside clients with huge replies, even on a busy machine. Without turns, the wait is
/// ten seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// A gateway, and a client that watches the gateway.
struct Watched {
    process: Process,
    observer: Client,
    before: u64,
    _directory: tempfile::TempDir,
}

/// The memory and the waits under a load.
#[derive(Debug, Default)]
struct Seen {
    peak: u64,
    longest: Duration,
}

impl Watched {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bounds = Bounds {
            buffer_size: Some(BUFFER_SIZE),
        };
        let process = Process::within(bounds, directory.path(), Durability::Process);
        let mut observer = Client::connect(process.address);
        for key in 0..8 {
            let value = vec![b'x'; 1_000_000];
            let key = format!("big:{key}");
            let set = [b"SET", key.as_bytes(), &value];
            assert_eq!(observer.call(set), Reply::simple("OK"));
        }
        Self {
            before: process.private_memory(),
            process,
            observer,
            _directory: directory,
        }
    }

    fn clients(&self, count: usize) -> Vec<Client> {
        (0..count)
            .map(|_| Client::connect(self.process.address))
            .collect()
    }

    /// Reads the gateway's memory and requests a short reply, repeatedly.
    fn watch(&mut self, duration: Duration, mut is_over: impl FnMut() -> bool) -> Seen {
        let mut seen = Seen::default();
        let end = Instant::now() + duration;
        while Instant::now() < end && !is_over() {
            let start = Instant::now();
            assert_eq!(self.observer.words("PING"), Reply::simple("PONG"));
            seen.longest = seen.longest.max(start.elapsed());
            seen.peak = seen.peak.max(self.process.private_memory());
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("{seen:?}, {} before", self.before);
        assert!(seen.peak < PEAK_MAX, "{seen:?} of {PEAK_MAX}");
        assert!(seen.longest < PATIENCE, "{seen:?}");
        seen
    }

    /// Waits until the memory of ended connections is free.
    fn settles(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let kept = self.process.private_memory().saturating_sub(self.before);
            if kept < KEPT_MAX {
                return println!("{kept} kept");
            }
            assert!(Instant::now() < deadline, "{kept} bytes are kept");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Needs reservations for replies before values are read, and connections that take turns.
#[test]
fn replies_that_no_client_reads_stay_within_the_bound() {
    let mut watched = Watched::start();
    let mut silent = watched.clients(100);
    for client in &mut silent {
        client.send("GET big:0\r\n".repeat(200));
    }
    watched.watch(Duration::from_millis(1500), || false);
    drop(silent);
    watched.settles();
}

/// Needs reservations for every kind of reply that may be long: values that are changed, and arguments that are
/// returned to the client.
#[test]
fn long_replies_of_every_command_stay_within_the_bound() {
    let mut watched = Watched::start();
    let mut silent = watched.clients(60);
    let long = vec![b'y'; 500_000];
    for (index, client) in silent.iter_mut().enumerate() {
        let keys = (0..400).map(|key| format!("big:{}", key % 8));
        let commands = match index % 5 {
            0 => request(["MGET".to_owned()].into_iter().chain(keys)),
            1 => b"GETRANGE big:1 0 -1\r\n".repeat(200),
            2 => [b"APPEND big:2 x\r\n".to_vec(), b"GET big:2\r\n".repeat(200)].concat(),
            3 => [
                &b"SET big:3 short GET\r\n"[..],
                &b"GET big:4\r\n".repeat(200),
            ]
            .concat(),
            _ => request([b"ECHO", &long[..]]).repeat(10),
        };
        // A client stops sending when the gateway stops reading its requests.
        client
            .socket
            .set_write_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let _ = client.socket.write_all(&commands);
    }
    watched.watch(Duration::from_millis(1500), || false);
    drop(silent);
    watched.settles();
}

/// Needs reservations for requests before they are read, and a first in line that is completed: otherwise the requests
/// would wait for each other.
#[test]
fn large_requests_of_many_wait_for_each_other_and_are_all_done() {
    let mut watched = Watched::start();
    let value = vec![b'z'; 1_000_000];
    let keys: Vec<String> = (0..8).map(|key| format!("big:{key}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value]);
    let set = request([&b"MSET"[..]].into_iter().chain(pairs));
    let sending: Vec<_> = watched
        .clients(24)
        .into_iter()
        .map(|mut client| {
            let set = set.clone();
            std::thread::spawn(move || {
                client.send(&set);
                assert_eq!(client.reply(), Reply::simple("OK"));
            })
        })
        .collect();
    watched.watch(Duration::from_secs(60), || {
        sending.iter().all(|sender| sender.is_finished())
    });
    for sender in sending {
        sender.join().unwrap();
    }
    watched.settles();
}

/// Needs service for small commands beside the reserved memory, and arguments that are counted.
#[test]
fn requests_that_are_never_completed_stay_within_the_bound_and_do_not_delay_small_commands() {
    let mut watched = Watched::start();
    let mut halves = watched.clients(200);
    let many = b"$1\r\nk\r\n".repeat(200_000);
    for (index, client) in halves.iter_mut().enumerate() {
        client
            .socket
            .set_write_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        // A client stops sending when the gateway stops reading its request.
        let _ = match index % 2 {
            0 => client
                .socket
                .write_all(&[b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16000000\r\n", &many[..]].concat()),
            _ => client
                .socket
                .write_all(&[b"*1048576\r\n$4\r\nMGET\r\n", &many[..]].concat()),
        };
    }
    watched.watch(Duration::from_millis(1500), || false);
    let mut fresh = watched.clients(1).remove(0);
    assert_eq!(fresh.words("SET small value"), Reply::simple("OK"));
    assert_eq!(fresh.words("GET small"), Reply::bulk("value"));
    drop(halves);
    watched.settles();
}

/// Needs the memory of a batch to be counted: each of these commands takes many times its ten bytes until it is done.
#[test]
fn batches_of_short_commands_that_wait_stay_within_the_bound() {
    let count = 1200;
    if !allow_files(count as u64 + 200) {
        return not_run(
            "memory::batches_of_short_commands_that_wait_stay_within_the_bound",
            "too few open files allowed",
        );
    }
    let mut watched = Watched::start();
    let mut silent = watched.clients(count);
    for client in &mut silent {
        client.send("GET big:0\r\n".repeat(1000));
    }
    watched.watch(Duration::from_millis(3000), || false);
    drop(silent);
    watched.settles();
}
