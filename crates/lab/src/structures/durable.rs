//! Inserts that survive the loss of power, into a B+tree on a disk, beside LMDB that syncs each transaction: batches of
//! the same size are durable when they end. What is durable is published as the log fills, so checkpoints are a part
//! of a long measurement.

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use stonecast::structures::{BlockingWriter, connect_blocking};
use stonecast_base::{Random, random_from_seed};

use super::peer::Peer;
use super::{
    BYTES_PER_KEY, BackEnd, Hundred, Pairs, StructuresError, StructuresOptions, Tree, rate,
};
use crate::figures::{Definition, Direction, Judged};
use crate::peers::lmdb::Syncs;

/// Bytes of a pool beside those of the keys.
const ROOM: u64 = 256 << 20;
/// Keys of a batch of the load.
const LOADED: usize = 4096;

const fn in_flight(name: &'static str, what: &'static str, target: f64) -> Definition {
    Definition {
        name,
        what,
        unit: "op/s",
        judged: Judged::Ratio,
        target: Some(target),
        direction: Direction::AtLeast,
    }
}

pub(super) const FIGURES: [Definition; 2] = [
    in_flight(
        "b-tree-durable-16",
        "B+tree inserts on a disk, 16 in flight / LMDB with sync",
        3.0,
    ),
    in_flight(
        "b-tree-durable-128",
        "B+tree inserts on a disk, 128 in flight / LMDB with sync",
        8.0,
    ),
];
/// Inserts that are durable together, of each figure.
const IN_FLIGHT: [usize; 2] = [16, 128];

pub(super) fn measure(options: &StructuresOptions) -> Result<Pairs, StructuresError> {
    let parent = options.disk_folder.as_path();
    let capacity = ROOM + options.keys * BYTES_PER_KEY;
    let back_end = BackEnd::start(options, (parent, "power"), capacity)?;
    let session = connect_blocking(&back_end.url())?;
    let mut writer: BlockingWriter<Tree> = session.writer("entries")?;
    let peer = Peer::open(parent, Syncs::EachCommit)?;
    let mut random = random_from_seed(options.seed);
    let mut order: Vec<u64> = (0..options.keys).collect();
    order.shuffle(&mut random);
    for part in order.chunks(LOADED) {
        insert(&mut writer, part)?;
        writer.publish()?;
        peer.put(part)?;
    }
    let mut pairs: Pairs = FIGURES.map(|figure| (figure, Vec::new())).into();
    for _ in 0..options.repetitions {
        for ((figure, pairs), count) in pairs.iter_mut().zip(IN_FLIGHT) {
            if !options.wants(figure) {
                continue;
            }
            writer.renew()?;
            let ours = rate(options.duration, || {
                insert(&mut writer, &fresh(&mut random, options.keys, count))
            })?;
            writer.publish()?;
            let theirs = rate(options.duration, || {
                peer.put(&fresh(&mut random, options.keys, count))
            })?;
            pairs.push((ours, theirs));
        }
    }
    Ok(pairs)
}

/// Keys behind the loaded ones.
fn fresh(random: &mut Random, keys: u64, count: usize) -> Vec<u64> {
    let fresh = (0..count).map(|_| random.random_range(keys..keys * 4));
    fresh.collect()
}

/// Inserts that are durable when it returns.
fn insert(writer: &mut BlockingWriter<Tree>, keys: &[u64]) -> Result<usize, StructuresError> {
    for key in keys {
        writer.stage(key, &Hundred::of(*key))?;
    }
    writer.flush()?;
    Ok(keys.len())
}
