//! A program that does nothing but calls of one kind on a B+tree, for a profiler or a tool that counts instructions.
//!
//! ```text
//!   cargo build --release --package stonecast --bench structures         names the program
//!   structures serve KEYS FOLDER &                                       a pool with the keys, until it is killed
//!   structures serve-durable KEYS FOLDER &                               the same, and all of it outlives a loss of power
//!   structures KIND COUNT KEYS FOLDER                                    cold, warm, range, insert, batch, staged, staged-16
//! ```
//!
//! Keys have 8 bytes and are drawn uniformly, values have 100. A program that counts instructions (`valgrind
//! --tool=callgrind`) counts those of the loop and of the first connection, too: the difference of two counts, divided
//! by the difference of the operations, is one operation.

use std::borrow::Cow;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use rand::RngExt as _;
use stonecast::Durability;
use stonecast::structures::{
    BTree, BlockingSession, BlockingWriter, Server, Value, connect_blocking,
};
use stonecast_base::random_from_seed;

const VALUE_SIZE: usize = 100;
const BATCH: usize = 128;
const RANGE: usize = 100;
/// Bytes that a reader caches: all inner nodes.
const CACHE_SIZE: u64 = 256 << 20;

type Outcome = Result<(), Box<dyn std::error::Error>>;
type Tree = BTree<u64, Hundred>;

struct Hundred([u8; VALUE_SIZE]);

impl Value for Hundred {
    const SIZE: usize = VALUE_SIZE;

    fn schema(into: &mut String) {
        into.push_str("100 bytes");
    }

    fn encode(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.0)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", keys, folder] => {
            number(keys).and_then(|keys| serve(keys, folder, Durability::Process))
        }
        ["serve-durable", keys, folder] => {
            number(keys).and_then(|keys| serve(keys, folder, Durability::Power))
        }
        [kind, count, keys, folder] => number(count)
            .and_then(|count| Ok((count, number(keys)?)))
            .and_then(|(count, keys)| measure(kind, count as usize, keys, folder)),
        // `cargo test --benches` runs the program without a kind.
        _ => {
            println!("usage: structures serve KEYS FOLDER | KIND COUNT KEYS FOLDER");
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> Result<u64, Box<dyn std::error::Error>> {
    Ok(text.parse()?)
}

fn value(key: u64) -> Hundred {
    let mut value = [0; VALUE_SIZE];
    value[..8].copy_from_slice(&key.to_le_bytes());
    Hundred(value)
}

fn address(folder: &str) -> String {
    format!("shm:{folder}/socket")
}

fn serve(keys: u64, folder: &str, durability: Durability) -> Outcome {
    let server = Server::builder(Path::new(folder).join("pool"))
        .durability(durability)
        .capacity((1 << 30) + (keys << 10))
        .listen(address(folder).parse()?)
        .serve()?;
    let session = connect_blocking(&address(folder))?;
    let mut writer = session.writer::<Tree>("entries")?;
    let mut random = random_from_seed(1);
    // Keys come in a random order, as they do to a tree that is in use.
    let mut order: Vec<u64> = (0..keys).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, random.random_range(0..=index));
    }
    for part in order.chunks(BATCH) {
        insert(&mut writer, part.iter().copied())?;
    }
    writer.release()?;
    println!("serving {}", server.address());
    loop {
        thread::park();
    }
}

fn insert(writer: &mut BlockingWriter<Tree>, keys: impl Iterator<Item = u64>) -> Outcome {
    for key in keys {
        writer.stage(&key, &value(key))?;
    }
    Ok(writer.publish()?)
}

fn measure(kind: &str, count: usize, keys: u64, folder: &str) -> Outcome {
    let session = connect_blocking(&address(folder))?;
    match kind {
        "cold" => gets(&session, 0, count, keys),
        "warm" => gets(&session, CACHE_SIZE, count, keys),
        "range" => ranges(&session, count, keys),
        "insert" => inserts(&session, count, keys, 1),
        "batch" => inserts(&session, count, keys, BATCH),
        "staged" => staged(&session, count, keys, BATCH),
        "staged-16" => staged(&session, count, keys, 16),
        _ => Err(format!("{kind}: no such kind of call").into()),
    }
}

fn timed(count: usize, mut call: impl FnMut() -> Outcome) -> Outcome {
    let start = Instant::now();
    for _ in 0..count {
        call()?;
    }
    let each = start.elapsed().as_nanos() as f64 / count as f64;
    println!("{each:.0} ns a call");
    Ok(())
}

fn gets(session: &BlockingSession, cache_size: u64, count: usize, keys: u64) -> Outcome {
    let mut reader = session.reader_caching::<Tree>("entries", cache_size)?;
    let mut random = random_from_seed(2);
    let mut get = || {
        let key = random.random_range(0..keys);
        let found = reader.get(&key)?.ok_or("a key is missing")?;
        assert!(found.0[..8] == key.to_le_bytes());
        Ok(())
    };
    for _ in 0..keys.min(count as u64) {
        get()?;
    }
    timed(count, get)
}

fn ranges(session: &BlockingSession, count: usize, keys: u64) -> Outcome {
    let mut reader = session.reader_caching::<Tree>("entries", CACHE_SIZE)?;
    let mut random = random_from_seed(3);
    timed(count, || {
        let start = random.random_range(0..keys.saturating_sub(RANGE as u64).max(1));
        for (expected, entry) in (start..keys).zip(reader.range(start..).take(RANGE)) {
            assert!(entry?.0 == expected);
        }
        Ok(())
    })
}

/// Inserts keys beside the loaded ones. `count` counts batches.
fn inserts(session: &BlockingSession, count: usize, keys: u64, batch: usize) -> Outcome {
    let mut writer = session.writer::<Tree>("entries")?;
    let mut random = random_from_seed(4);
    timed(count, || {
        let fresh = (0..batch).map(|_| random.random_range(keys..keys * 4));
        insert(&mut writer, fresh)
    })?;
    Ok(writer.release()?)
}

/// Stages keys, and waits for a batch of them. `count` counts batches.
fn staged(session: &BlockingSession, count: usize, keys: u64, batch: usize) -> Outcome {
    let mut writer = session.writer::<Tree>("entries")?;
    let mut random = random_from_seed(5);
    timed(count, || {
        for _ in 0..batch {
            let key = random.random_range(keys..keys * 4);
            writer.stage(&key, &value(key))?;
        }
        Ok(writer.flush()?)
    })?;
    Ok(writer.release()?)
}
