//! Hostile connections to a gateway in a process of its own: broken commands, promises, silence. The gateway must
//! neither end nor grow, and must serve other clients meanwhile.
//!
//! The test runs for STONECAST_FUZZ_SECONDS seconds, two by default. The test prints its seed, and STONECAST_FUZZ_SEED
//! repeats a run.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_media::Durability;

use crate::support::{Client, Process, Reply, request};

/// The number of connections that are left open in the middle of their last request.
const SILENT_MAX: usize = 200;
/// The bytes by which the process may grow: stocks of buffers, and the bytes that 200 hostile connections had sent when
/// they fell silent.
const GROWTH_MAX: u64 = 48 << 20;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// An argument that is strange to some command.
fn draw_argument(random: &mut Random) -> Vec<u8> {
    const STRANGE: [&[u8]; 22] = [
        b"",
        b"0",
        b"-1",
        b"9223372036854775807",
        b"-9223372036854775808",
        b"18446744073709551616",
        b"NX",
        b"IFEQ",
        b"GET",
        b"MATCH",
        b"COUNT",
        b"AUTH",
        b"SETNAME",
        b"default",
        b"*",
        b"[^a-\\]?",
        b"k",
        b"\r\n",
        b"LIB-NAME",
        b"DOCS",
        b"EX",
        b"1.5",
    ];
    match random.random_range(0..12) {
        0 => (0..random.random_range(0..300))
            .map(|_| random.random())
            .collect(),
        1 => vec![b'x'; random.random_range(0..3000)],
        2 => b"*".repeat(random.random_range(0..200)),
        _ => STRANGE[random.random_range(0..STRANGE.len())].to_vec(),
    }
}

/// The bytes that one connection sends.
fn draw_stream(random: &mut Random, names: &[Vec<u8>]) -> Vec<u8> {
    match random.random_range(0..14) {
        0 => return b"*1\r\n".repeat(200_000),
        1 => return b"*2\r\n$3\r\nGET\r\n$1073741824\r\nand no more".to_vec(),
        2 => return format!("*{}\r\n", i64::MAX - random.random_range(0..3)).into_bytes(),
        3 => {
            return format!(
                "*2\r\n$3\r\nGET\r\n${}\r\n",
                i64::MAX - random.random_range(0..3)
            )
            .into_bytes();
        }
        4 => return b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16000000\r\nhalf".to_vec(),
        5 => return vec![random.random(); random.random_range(0..70_000)],
        _ => {}
    }
    let mut stream = Vec::new();
    for _ in 0..random.random_range(1..20) {
        let name = names[random.random_range(0..names.len())].clone();
        let arguments = (0..random.random_range(0..6)).map(|_| draw_argument(random));
        stream.extend(request(std::iter::once(name).chain(arguments)));
    }
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..=stream.len());
        match random.random_range(0..4) {
            0 if at < stream.len() => stream[at] = random.random(),
            1 if at < stream.len() => drop(stream.remove(at)),
            2 => stream.insert(at, b"*$\r\n:-0 9"[random.random_range(0..9)]),
            _ => stream.truncate(at),
        }
    }
    stream
}

/// Needs the bounds of requests, the flat grammar, and buffers that grow with the bytes that have arrived, not with the
/// announced ones.
#[test]
fn a_gateway_under_hostile_connections_serves_other_clients_and_does_not_grow() {
    let seconds = variable("STONECAST_FUZZ_SECONDS").unwrap_or(2);
    let seed = variable("STONECAST_FUZZ_SEED")
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_secs());
    println!("seed {seed}");
    let mut random = random_from_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), Durability::Process);
    let mut observer = Client::connect(process.address);
    let names: Vec<Vec<u8>> = observer
        .words("COMMAND LIST")
        .list()
        .iter()
        .map(|name| name.bytes().to_vec())
        .collect();
    let before = process.private_memory();
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut silent, mut count, mut most) = (Vec::new(), 0, 0);
    while Instant::now() < end {
        let mut socket = TcpStream::connect(process.address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        for piece in draw_stream(&mut random, &names).chunks(random.random_range(1..100_000)) {
            // The gateway may have ended the connection by now.
            if socket.write_all(piece).is_err() {
                break;
            }
        }
        count += 1;
        if random.random_bool(0.3) {
            silent.push(socket);
            if silent.len() > SILENT_MAX {
                silent.clear();
            }
        } else {
            let _ = socket.shutdown(Shutdown::Write);
            let mut replies = Vec::new();
            // A reset is also an end; a timeout is not.
            if let Err(error) = socket.read_to_end(&mut replies) {
                assert_eq!(
                    error.kind(),
                    std::io::ErrorKind::ConnectionReset,
                    "seed {seed}, connection {count}: {error}"
                );
            }
        }
        if count % 16 == 0 {
            assert_eq!(
                observer.words("PING"),
                Reply::simple("PONG"),
                "seed {seed}, connection {count}"
            );
            most = most.max(process.private_memory().saturating_sub(before));
            assert!(
                most < GROWTH_MAX,
                "seed {seed}, connection {count}: grown by {most} bytes"
            );
        }
    }
    println!("{count} connections from seed {seed}, grown by {most} bytes at most");
    assert!(count > 20, "{count} connections are no test");
}
