//! A B+tree of a back-end in another process beside LMDB and redb in this one. All survive the death of processes
//! alone.

use std::collections::HashMap;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use stonecast::structures::{BlockingReader, BlockingWriter, connect_blocking};
use stonecast_base::{Random, random_from_seed};

use super::peer::{Peer, latest};
use super::{
    BATCH, BYTES_PER_KEY, BackEnd, Hundred, Pairs, RANGE, StructuresError, StructuresOptions, Tree,
    is_right, rate,
};
use crate::figures::{Definition, Direction, Judged};
use crate::peers::lmdb::Syncs;
use crate::peers::redb::Redb;

/// Operations between two readings of the clock.
const ROUND: usize = 64;
/// Bytes that a reader caches: all inner nodes.
const CACHE_SIZE: u64 = 256 << 20;
/// Bytes of a pool beside those of the keys.
const ROOM: u64 = 256 << 20;
/// Bytes of a pool for the keys that each repetition inserts in a second of each measurement.
const ROOM_PER_SECOND: f64 = (768 << 20) as f64;

const fn at_least(name: &'static str, what: &'static str, target: f64) -> Definition {
    Definition {
        name,
        what,
        unit: "op/s",
        judged: Judged::Ratio,
        target: Some(target),
        direction: Direction::AtLeast,
    }
}

const GET_COLD: Definition = at_least("b-tree-get-cold", "B+tree GET without a cache / LMDB", 0.7);
const GET_WARM: Definition = at_least(
    "b-tree-get-warm",
    "B+tree GET, inner nodes cached / LMDB",
    1.3,
);
const RANGE_WARM: Definition = at_least("b-tree-range", "B+tree ranges of 100 / LMDB cursor", 0.5);
const INSERT: Definition = at_least(
    "b-tree-insert",
    "B+tree inserts one by one / LMDB without sync",
    1.5,
);
const INSERT_REDB: Definition = at_least(
    "b-tree-insert-redb",
    "B+tree inserts one by one / redb without sync",
    1.5,
);
const INSERT_BATCH: Definition = at_least(
    "b-tree-insert-128",
    "B+tree inserts in batches of 128 / LMDB",
    3.0,
);
const INSERT_BATCH_REDB: Definition = at_least(
    "b-tree-insert-128-redb",
    "B+tree inserts in batches of 128 / redb",
    3.0,
);
const STAGED: Definition = Definition {
    judged: Judged::Ours,
    ..at_least(
        "b-tree-staged",
        "B+tree inserts, staged, 128 in flight",
        1.5e6,
    )
};

pub(super) const FIGURES: [Definition; 8] = [
    GET_COLD,
    GET_WARM,
    RANGE_WARM,
    INSERT,
    INSERT_REDB,
    INSERT_BATCH,
    INSERT_BATCH_REDB,
    STAGED,
];

struct Comparison<'a> {
    options: &'a StructuresOptions,
    writer: BlockingWriter<Tree>,
    cold: BlockingReader<Tree>,
    warm: BlockingReader<Tree>,
    peer: Peer,
    redb: Redb,
    random: Random,
    pairs: HashMap<&'static str, Vec<(f64, f64)>>,
}

pub(super) fn measure(options: &StructuresOptions) -> Result<Pairs, StructuresError> {
    let parent = options.memory_folder.as_path();
    let inserting = options.duration.as_secs_f64() * f64::from(options.repetitions);
    let inserted = (inserting * ROOM_PER_SECOND) as u64;
    let capacity = ROOM + options.keys * BYTES_PER_KEY + inserted;
    let back_end = BackEnd::start(options, (parent, "process"), capacity)?;
    let session = connect_blocking(&back_end.url())?;
    let mut comparison = Comparison {
        options,
        writer: session.writer("entries")?,
        cold: session.reader_caching("entries", 0)?,
        warm: session.reader_caching("entries", CACHE_SIZE)?,
        peer: Peer::open(parent, Syncs::Never)?,
        redb: Redb::open(parent)?,
        random: random_from_seed(options.seed),
        pairs: HashMap::new(),
    };
    comparison.load()?;
    for _ in 0..options.repetitions {
        comparison.reads()?;
    }
    for _ in 0..options.repetitions {
        comparison.writes()?;
    }
    let Comparison { mut pairs, .. } = comparison;
    let of = |figure: Definition| (figure, pairs.remove(figure.name).unwrap_or_default());
    Ok(FIGURES.map(of).into())
}

impl Comparison<'_> {
    fn load(&mut self) -> Result<(), StructuresError> {
        let mut order: Vec<u64> = (0..self.options.keys).collect();
        order.shuffle(&mut self.random);
        for part in order.chunks(BATCH) {
            self.insert(part)?;
            self.peer.put(part)?;
            put_redb(&self.redb, part)?;
        }
        Ok(())
    }

    fn insert(&mut self, keys: &[u64]) -> Result<usize, StructuresError> {
        for key in keys {
            self.writer.stage(key, &Hundred::of(*key))?;
        }
        self.writer.publish()?;
        Ok(keys.len())
    }

    fn note(&mut self, definition: &Definition, pair: (f64, f64)) {
        let pairs = self.pairs.entry(definition.name).or_default();
        pairs.push(pair);
    }

    fn reads(&mut self) -> Result<(), StructuresError> {
        let (keys, duration) = (self.options.keys, self.options.duration);
        let Self {
            writer,
            cold,
            warm,
            peer,
            random,
            ..
        } = self;
        let mut idle = Some(peer.environment.begin_ro_txn()?.reset());
        let theirs = rate(duration, || {
            for _ in 0..ROUND {
                latest(&mut idle, |latest| {
                    peer.get(latest, random.random_range(0..keys))
                })?;
            }
            Ok(ROUND)
        })?;
        let mut ours = [0.0; 2];
        for (ours, reader) in ours.iter_mut().zip([&mut *cold, &mut *warm]) {
            // The writer sends nothing while others are measured, and its lease runs on.
            writer.renew()?;
            *ours = rate(duration, || {
                for _ in 0..ROUND {
                    let key = random.random_range(0..keys);
                    is_right("the B+tree", key, reader.get(&key)?.as_ref())?;
                }
                Ok(ROUND)
            })?;
        }
        let starts = 0..keys.saturating_sub(RANGE as u64).max(1);
        writer.renew()?;
        let theirs_range = rate(duration, || {
            let key = random.random_range(starts.clone());
            latest(&mut idle, |latest| peer.range(latest, key))?;
            Ok(1)
        })?;
        let ours_range = rate(duration, || {
            let key = random.random_range(starts.clone());
            for (expected, entry) in (key..).zip(warm.range(key..).take(RANGE)) {
                is_right("the B+tree", expected, Some(&entry?.1))?;
            }
            Ok(1)
        })?;
        drop(idle);
        self.note(&GET_COLD, (ours[0], theirs));
        self.note(&GET_WARM, (ours[1], theirs));
        self.note(&RANGE_WARM, (ours_range, theirs_range));
        Ok(())
    }

    /// New keys behind the loaded ones.
    fn fresh(&mut self, count: usize) -> Vec<u64> {
        let keys = self.options.keys;
        let fresh = (0..count).map(|_| self.random.random_range(keys..keys * 4));
        fresh.collect()
    }

    fn writes(&mut self) -> Result<(), StructuresError> {
        let duration = self.options.duration;
        let figures = [
            ([INSERT, INSERT_REDB], 1),
            ([INSERT_BATCH, INSERT_BATCH_REDB], BATCH),
        ];
        for ([beside_lmdb, beside_redb], count) in figures {
            let ours = rate(duration, || {
                let fresh = self.fresh(count);
                self.insert(&fresh)
            })?;
            let lmdb = rate(duration, || {
                let fresh = self.fresh(count);
                self.peer.put(&fresh)
            })?;
            self.writer.renew()?;
            let redb = rate(duration, || {
                let fresh = self.fresh(count);
                put_redb(&self.redb, &fresh)
            })?;
            self.writer.renew()?;
            self.note(&beside_lmdb, (ours, lmdb));
            self.note(&beside_redb, (ours, redb));
        }
        let staged = rate(duration, || {
            for key in self.fresh(BATCH) {
                self.writer.stage(&key, &Hundred::of(key))?;
            }
            self.writer.flush()?;
            Ok(BATCH)
        })?;
        self.writer.publish()?;
        self.note(&STAGED, (staged, f64::NAN));
        Ok(())
    }
}

fn put_redb(redb: &Redb, keys: &[u64]) -> Result<usize, StructuresError> {
    let entries = keys.iter().map(|key| (*key, Hundred::of(*key).0));
    redb.put(entries)?;
    Ok(keys.len())
}
