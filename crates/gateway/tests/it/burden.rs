//! Measures, for a quiet machine, how long a client with short commands waits beside clients that ask for as much as
//! they may.
//!
//! `docs/gateway.md` has the command that runs it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stonecast_gateway::GatewayLimits;
use stonecast_media::Durability;

use crate::support::{Client, Process, Reply, request};

/// Bytes of the values.
const VALUE_SIZE: usize = 1_000_000;
/// Connections that ask for values and read none of them, and how many values each asks for.
const SILENT_COUNT: usize = 100;
const GETS: usize = 200;
/// Connections that send long requests at once, and the values of each.
const LOADER_COUNT: usize = 60;
const VALUES: usize = 15;
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// The load that clients put on the gateway at an address.
type Load = fn(SocketAddr);

/// Waits and memory while a load was there.
#[derive(Default)]
struct Seen {
    /// How long each PING took, and the processor time that the server used meanwhile: the rest of a long wait is that of a busy
    /// machine.
    waits: Vec<(Duration, Duration)>,
    peak: u64,
}

fn mset() -> Vec<u8> {
    let value = vec![b'z'; VALUE_SIZE];
    let keys: Vec<String> = (0..VALUES).map(|key| format!("big:{key}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value]);
    request([&b"MSET"[..]].into_iter().chain(pairs))
}

/// Asks for a short reply again and again while `load` runs.
fn watch(process: &Process, load: impl FnOnce(SocketAddr) + Send) -> Seen {
    let mut observer = Client::connect(process.address);
    let (mut seen, is_over) = (Seen::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            load(process.address);
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            let (start, used) = (Instant::now(), process.processor_seconds());
            assert_eq!(observer.words("PING"), Reply::simple("PONG"));
            let worked = Duration::from_secs_f64(process.processor_seconds() - used);
            seen.waits.push((start.elapsed(), worked));
            seen.peak = seen.peak.max(process.private_memory());
            std::thread::sleep(LOOK);
        }
    });
    seen
}

/// Connections that pipeline GETs, read nothing for some seconds, and leave.
fn silent_readers(address: SocketAddr) {
    let mut clients: Vec<Client> = (0..SILENT_COUNT)
        .map(|_| Client::connect(address))
        .collect();
    for client in &mut clients {
        client.send("GET big:0\r\n".repeat(GETS));
    }
    std::thread::sleep(Duration::from_secs(5));
}

/// Connections that send one long request each, all at once.
fn loaders(address: SocketAddr) {
    let request = mset();
    std::thread::scope(|scope| {
        for _ in 0..LOADER_COUNT {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                client.send(&request);
                assert_eq!(client.reply(), Reply::simple("OK"));
            });
        }
    });
}

/// Prints the longest wait for a PING. Memory is a promise and is asserted.
#[test]
#[ignore = "a measurement for a quiet machine"]
fn a_ping_beside_silent_readers_and_long_requests() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), Durability::Process);
    let mut client = Client::connect(process.address);
    client.send(mset());
    assert_eq!(client.reply(), Reply::simple("OK"));
    let buffers = GatewayLimits::default().memory_size as u64;
    let bound = buffers * 5 / 4 + (64 << 20);
    let loads: [(&str, Load); 3] = [
        ("silent readers", silent_readers),
        ("long requests", loaders),
        ("both", |address| {
            std::thread::scope(|scope| {
                scope.spawn(|| silent_readers(address));
                loaders(address);
            });
        }),
    ];
    for (name, load) in loads {
        let mut seen = watch(&process, load);
        seen.waits.sort_unstable();
        let at = |part: f64| seen.waits[((seen.waits.len() - 1) as f64 * part) as usize];
        println!(
            "{name}: PING p50 {:?}, p99 {:?}, longest {:?} (the server worked {:?} of it) of {}; private memory {} MiB at most, bound {} MiB",
            at(0.5).0,
            at(0.99).0,
            at(1.0).0,
            at(1.0).1,
            seen.waits.len(),
            seen.peak >> 20,
            bound >> 20,
        );
        assert!(seen.peak <= bound, "{name}: {} bytes of {bound}", seen.peak);
    }
}
