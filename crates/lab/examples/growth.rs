//! Grows the index of a server process from a thousand keys to ten million while clients read it
//! one-sided.
//!
//! ```text
//!   this process                                                  the server's process
//!   a thread that stores one key after the other  --------------> stonecast serve
//!   threads that look up   keys that were stored before the call: there, with their value
//!                          keys that are never stored:            absent
//! ```
//!
//! `cargo run --release --package stonecast-lab --example growth [KEYS]` needs 190 bytes of /dev/shm for each key, and
//! the `stonecast` binary beside itself: `cargo build --release --package stonecast-cli`. The program fails at the
//! first wrong look-up.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_bench::DataSet;
use stonecast_bench::kv::{ServerOptions, ServerProcess, Session, load};
use stonecast_workload::KeyName;

const KEYS_AT_FIRST: u64 = 1_000;
const KEYS: u64 = 10_000_000;
const READERS: u64 = 2;
/// Bytes of a value, of its record, and of a segment.
const VALUE_SIZE: usize = 8;
const RECORD_SIZE: u64 = 128;
const SEGMENT_SIZE: u64 = 4 << 20;
/// Look-ups between two checks for the end.
const ROUND: u64 = 256;

/// The counts of correct look-ups.
#[derive(Default)]
struct Found {
    present: AtomicU64,
    absent: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let keys = std::env::args()
        .nth(1)
        .map_or(Ok(KEYS), |text| text.parse())?;
    let server = ServerProcess::start(ServerOptions {
        program: std::env::current_exe()?.with_file_name("../stonecast"),
        parent: PathBuf::from("/dev/shm"),
        durability: "process",
        capacity: (keys * RECORD_SIZE * 9 / 8 + 16 * SEGMENT_SIZE).next_multiple_of(SEGMENT_SIZE),
        publishing: false,
        resp: false,
        instead: None,
    })?;
    let address = server.address();
    let data = DataSet {
        keys,
        value_size: VALUE_SIZE,
        seed: 1,
    };
    let writer = Session::open(&address)?;
    load(
        &writer,
        DataSet {
            keys: KEYS_AT_FIRST,
            ..data
        },
        |_| {},
    )?;
    let before = writer.block_on(writer.client().stat())?;
    let (stored, over, found) = (
        AtomicU64::new(KEYS_AT_FIRST),
        AtomicBool::new(false),
        Found::default(),
    );
    let start = Instant::now();
    thread::scope(|scope| -> Result<(), Box<dyn Error + Send + Sync>> {
        let readers: Vec<_> = (0..READERS)
            .map(|seed| {
                let (address, stored, over, found) = (&address, &stored, &over, &found);
                scope.spawn(move || look_up(address, data, seed, stored, over, found))
            })
            .collect();
        let loaded = load(&writer, data, |count| {
            stored.store(count.max(KEYS_AT_FIRST), Ordering::Release)
        });
        over.store(true, Ordering::Release);
        loaded?;
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().expect("a reader does not panic"))
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let after = writer.block_on(writer.client().stat())?;
    if after.keys != keys {
        return Err(format!("{} keys are counted where there are {keys}", after.keys).into());
    }
    println!(
        "{} to {} keys in {seconds:.1} s: {} growths, index of {} KiB to {} KiB; {} look-ups of present keys, {} of absent keys, none wrong",
        before.keys,
        after.keys,
        after.index_growths - before.index_growths,
        before.index_bytes >> 10,
        after.index_bytes >> 10,
        found.present.load(Ordering::Relaxed),
        found.absent.load(Ordering::Relaxed),
    );
    Ok(())
}

/// Looks up keys until the end. A wrong answer is an error.
fn look_up(
    address: &str,
    data: DataSet,
    seed: u64,
    stored: &AtomicU64,
    over: &AtomicBool,
    found: &Found,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let session = Session::open(address)?;
    let mut random = random_from_seed(seed);
    let (mut value, mut expected) = (Vec::new(), vec![0; data.value_size]);
    while !over.load(Ordering::Acquire) {
        for _ in 0..ROUND {
            let number = random.random_range(0..stored.load(Ordering::Acquire));
            data.value(number, &mut expected);
            let version = session.block_on(
                session
                    .client()
                    .get(KeyName::of(number).as_bytes(), &mut value),
            )?;
            if version.is_none() || value != expected {
                return Err(format!(
                    "key {number}, which was there before the call, is read as {version:?}"
                )
                .into());
            }
            let stranger = data.keys + random.random_range(0..data.keys);
            if session
                .block_on(
                    session
                        .client()
                        .get(KeyName::of(stranger).as_bytes(), &mut value),
                )?
                .is_some()
            {
                return Err(format!("key {stranger}, which was never stored, is found").into());
            }
        }
        found.present.fetch_add(ROUND, Ordering::Relaxed);
        found.absent.fetch_add(ROUND, Ordering::Relaxed);
    }
    session.close();
    Ok(())
}
