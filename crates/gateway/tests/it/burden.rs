//! Measures, on a quiet machine, the wait of a client with short commands beside clients that request as much as they
//! may.
//!
//! `docs/gateway.md` has the command that runs the measurement.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stonecast_gateway::GatewayLimits;
use stonecast_media::Durability;

use crate::support::{Client, Process, Reply, request};

/// Bytes of the values.
const VALUE_SIZE: usize = 1_000_000;
/// The number of connections that request values and read none of them, and the number of values for each.
const SILENT_COUNT: usize = 100;
const GETS: usize = 200;
/// The number of connections that send long requests at once, and the number of values of each.
const LOADER_COUNT: usize = 60;
const VALUES: usize = 15;
/// The pause between two requests of the observer.
const LOOK: Duration = Duration::from_millis(2);

/// The load that clients put on the gateway at an address.
type Load = fn(SocketAddr);

/// The waits and the memory under a load.
#[derive(Default)]
struct Seen {
    /// The duration of each PING, and the processor time that the server used meanwhile: a busy machine accounts for
    /// the rest of a long wait.
    waits: Vec<(Duration, Duration)>,
    peak: u64,
}

fn mset() -> Vec<u8> {
    let value = vec![b'z'; VALUE_SIZE];
    let keys: Vec<String> = (0..VALUES).map(|key| format!("big:{key}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value]);
    request([&b"MSET"[..]].into_iter().chain(pairs))
}

/// Requests a short reply repeatedly while `load` runs.
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

/// Opens connections that pipeline GETs, read nothing for some seconds, and leave.
fn silent_readers(address: SocketAddr) {
    let mut clients: Vec<Client> = (0..SILENT_COUNT)
        .map(|_| Client::connect(address))
        .collect();
    for client in &mut clients {
        client.send("GET big:0\r\n".repeat(GETS));
    }
    std::thread::sleep(Duration::from_secs(5));
}

/// Opens connections that send one long request each, all at once.
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

/// Prints the longest wait for a PING. The bound on memory is a promise, and is asserted.
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
