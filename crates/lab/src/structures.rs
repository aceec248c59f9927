//! A B+tree of a back-end in another process, over shared memory, beside LMDB in this process. Both survive the death
//! of processes alone.
//!
//! ```text
//!   LMDB     renewed read transaction, copied value     a transaction for each insert, or for each batch; no sync
//!   B+tree   reader without a cache, reader with one    insert and publication, or a batch staged and published
//! ```
//!
//! Keys have 8 bytes, values 100, and keys are drawn uniformly. LMDB is asked for the latest value, copied, as a reader
//! of the tree gets it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lmdb::{
    Cursor as _, Database, Environment, InactiveTransaction, RoTransaction, Transaction as _,
    WriteFlags,
};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use stonecast::structures::{self, BTree, BlockingReader, BlockingWriter, Value, connect_blocking};
use stonecast_base::{Random, random_from_seed};
use stonecast_bench::kv::{ServerOptions, ServerProcess, ServerProcessError};
use tempfile::TempDir;

use crate::figures::{Definition, Direction, Figure, Judged, Report};
use crate::peers::PeerError;
use crate::peers::lmdb::open;

const VALUE_SIZE: usize = 100;
const BATCH: usize = 128;
const RANGE: usize = 100;
/// Operations between two readings of the clock.
const ROUND: usize = 64;
/// Bytes that a reader caches: all inner nodes.
const CACHE_SIZE: u64 = 256 << 20;
/// Bytes of a pool for each key, splits and logs included.
const BYTES_PER_KEY: u64 = 1024;
/// Bytes of a pool for keys that are inserted by the measurements.
const ROOM: u64 = 4 << 30;
/// Address space of LMDB.
const MAP_SIZE: usize = 16 << 30;

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
const INSERT_BATCH: Definition = at_least(
    "b-tree-insert-128",
    "B+tree inserts in batches of 128 / LMDB",
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

/// The parameters of a comparison.
#[derive(Clone, Debug)]
pub struct StructuresOptions {
    /// Entries of both stores.
    pub keys: u64,
    /// Duration of each measurement.
    pub duration: Duration,
    /// Number of repetitions, in turn.
    pub repetitions: u32,
    /// Seed of keys and their order.
    pub seed: u64,
    /// The `stonecast` binary, for the back-end.
    pub program: PathBuf,
    /// A folder in memory, for both stores.
    pub memory_folder: PathBuf,
}

/// The error that ended a comparison.
#[derive(Debug, thiserror::Error)]
pub enum StructuresError {
    /// The back-end could not be started.
    #[error(transparent)]
    Server(#[from] ServerProcessError),
    /// The back-end refused something.
    #[error(transparent)]
    Structures(#[from] structures::Error),
    /// LMDB refused something.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A folder could not be made.
    #[error("making a folder: {0}")]
    Folder(#[from] std::io::Error),
    /// A store has given another value than it was given.
    #[error("{store} holds another value for key {key}")]
    Wrong {
        /// The store.
        store: &'static str,
        /// The key.
        key: u64,
    },
}

impl From<lmdb::Error> for StructuresError {
    fn from(error: lmdb::Error) -> Self {
        Self::Peer(error.into())
    }
}

#[derive(PartialEq, Eq)]
struct Hundred([u8; VALUE_SIZE]);

impl Hundred {
    fn of(key: u64) -> Self {
        let mut value = [0; VALUE_SIZE];
        let word = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        value[..8].copy_from_slice(&word.to_le_bytes());
        Self(value)
    }
}

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

/// Operations a second.
fn rate(
    duration: Duration,
    mut work: impl FnMut() -> Result<usize, StructuresError>,
) -> Result<f64, StructuresError> {
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < duration {
        done += work()?;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

/// The other store.
struct Peer {
    environment: Environment,
    database: Database,
    _folder: TempDir,
}

impl Peer {
    fn open(parent: &Path) -> Result<Self, StructuresError> {
        let (environment, folder) = open(parent, MAP_SIZE)?;
        let database = environment.open_db(None)?;
        Ok(Self {
            environment,
            database,
            _folder: folder,
        })
    }

    fn put(&self, keys: &[u64]) -> Result<usize, StructuresError> {
        let mut transaction = self.environment.begin_rw_txn()?;
        for key in keys {
            let value = Hundred::of(*key);
            let key = key.to_be_bytes();
            transaction.put(self.database, &key, &value.0, WriteFlags::empty())?;
        }
        transaction.commit()?;
        Ok(keys.len())
    }

    fn get(&self, transaction: &RoTransaction<'_>, key: u64) -> Result<(), StructuresError> {
        let found = transaction.get(self.database, &key.to_be_bytes())?;
        is_right("LMDB", key, found.try_into().ok().map(Hundred).as_ref())
    }

    fn range(&self, transaction: &RoTransaction<'_>, key: u64) -> Result<(), StructuresError> {
        let mut cursor = transaction.open_ro_cursor(self.database)?;
        let found = cursor.iter_from(key.to_be_bytes()).take(RANGE);
        for (expected, entry) in (key..).zip(found) {
            let (_, value) = entry?;
            is_right(
                "LMDB",
                expected,
                value.try_into().ok().map(Hundred).as_ref(),
            )?;
        }
        Ok(())
    }
}

fn is_right(store: &'static str, key: u64, found: Option<&Hundred>) -> Result<(), StructuresError> {
    match found {
        Some(value) if *value == Hundred::of(key) => Ok(()),
        _ => Err(StructuresError::Wrong { store, key }),
    }
}

type Tree = BTree<u64, Hundred>;

struct Comparison<'a> {
    options: &'a StructuresOptions,
    writer: BlockingWriter<Tree>,
    cold: BlockingReader<Tree>,
    warm: BlockingReader<Tree>,
    peer: Peer,
    random: Random,
    pairs: HashMap<&'static str, Vec<(f64, f64)>>,
}

/// Measures the figures, in turn with those of LMDB.
///
/// # Errors
///
/// [`StructuresError`]: there are no figures.
pub fn compare_structures(options: &StructuresOptions) -> Result<Report, StructuresError> {
    let folder = tempfile::Builder::new()
        .prefix("stonecast-structures-")
        .tempdir_in(&options.memory_folder)?;
    let place = folder.path().join("structures");
    let capacity = ROOM + options.keys * BYTES_PER_KEY;
    let arguments = ["serve", "--durability", "process", "--structures-capacity"];
    let mut instead: Vec<String> = arguments.map(str::to_owned).into();
    instead.extend([capacity.to_string(), "--structures".to_owned()]);
    instead.push(place.display().to_string());
    let _back_end = ServerProcess::start(ServerOptions {
        program: options.program.clone(),
        parent: options.memory_folder.clone(),
        durability: "process",
        capacity,
        publishing: false,
        resp: false,
        instead: Some(instead),
    })?;
    let session = connect_blocking(&format!("shm:{}", place.join("socket").display()))?;
    let mut comparison = Comparison {
        options,
        writer: session.writer("entries")?,
        cold: session.reader_caching("entries", 0)?,
        warm: session.reader_caching("entries", CACHE_SIZE)?,
        peer: Peer::open(&options.memory_folder)?,
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
    let figures = [GET_COLD, GET_WARM, RANGE_WARM, INSERT, INSERT_BATCH, STAGED];
    let figure = |definition: &Definition| -> Figure {
        let pairs = comparison.pairs.get(definition.name);
        definition.figure(pairs.map_or(&[], |pairs| pairs))
    };
    Ok(Report {
        figures: figures.iter().map(figure).collect(),
        not_run: Vec::new(),
    })
}

impl Comparison<'_> {
    fn load(&mut self) -> Result<(), StructuresError> {
        let mut order: Vec<u64> = (0..self.options.keys).collect();
        order.shuffle(&mut self.random);
        for part in order.chunks(BATCH) {
            self.insert(part)?;
            self.peer.put(part)?;
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
            // The writer says nothing while others are measured, and its lease goes on.
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
        for (definition, count) in [(INSERT, 1), (INSERT_BATCH, BATCH)] {
            let ours = rate(duration, || {
                let fresh = self.fresh(count);
                self.insert(&fresh)
            })?;
            let theirs = rate(duration, || {
                let fresh = self.fresh(count);
                self.peer.put(&fresh)
            })?;
            self.note(&definition, (ours, theirs));
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

/// Reads everything that was committed before.
fn latest<'a>(
    idle: &mut Option<InactiveTransaction<'a>>,
    read: impl FnOnce(&RoTransaction<'a>) -> Result<(), StructuresError>,
) -> Result<(), StructuresError> {
    let inactive = idle.take().expect("it is given back");
    let transaction = inactive.renew()?;
    read(&transaction)?;
    *idle = Some(transaction.reset());
    Ok(())
}
