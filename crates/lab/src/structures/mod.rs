//! Data structures of a back-end beside other stores, and beside themselves.
//!
//! ```text
//!   tree.rs      a B+tree of a back-end in another process, over shared memory, beside LMDB and redb in this process
//!                  reads    renewed read transaction, copied value     reader without a cache, reader with one
//!                  writes   a transaction for each insert or batch     an insert, or a batch, staged and published
//!   durable.rs   the same tree on a disk, beside LMDB that syncs: batches that are durable when they end
//!   restart.rs   the opening of a pool whose back-end was killed, by what it has to read of the log
//!   tables.rs    large tables: built, read, and found again after a restart
//!   beside.rs    a reader beside a busy writer against a reader alone, in the simulated world
//! ```
//!
//! Keys have 8 bytes, values 100, and keys are drawn uniformly. LMDB is asked for the latest value, copied, as a reader
//! of the tree gets it. All stores of `tree.rs` survive the death of processes alone, and those of `durable.rs` the
//! loss of power.

mod beside;
mod durable;
mod peer;
mod restart;
mod tables;
mod tree;

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stonecast::structures::{self, BTree, BlockingWriter, Keyed, Value};
use stonecast_bench::kv::{ServerOptions, ServerProcess, ServerProcessError};
use tempfile::TempDir;

pub use tables::{Table, TableFigures, TableOptions, measure_table};

use crate::asymnvm::AsymError;
use crate::figures::{Definition, Figure, Report};
use crate::peers::PeerError;

const VALUE_SIZE: usize = 100;
const BATCH: usize = 128;
const RANGE: usize = 100;
/// Bytes of a pool for each key, splits and logs included.
const BYTES_PER_KEY: u64 = 1024;
/// The lease of writers, which say nothing while other stores are measured.
const LEASE: &str = "24h";

/// The parameters of a comparison.
#[derive(Clone, Debug)]
pub struct StructuresOptions {
    /// Entries of all stores.
    pub keys: u64,
    /// Duration of each measurement.
    pub duration: Duration,
    /// Number of repetitions, in turn.
    pub repetitions: u32,
    /// Seed of keys and their order.
    pub seed: u64,
    /// The `stonecast` binary, for the back-end.
    pub program: PathBuf,
    /// A folder in memory, for stores that survive the death of processes alone.
    pub memory_folder: PathBuf,
    /// A folder on a disk, for stores that survive the loss of power.
    pub disk_folder: PathBuf,
    /// Names of the figures to measure; empty: all.
    pub only: Vec<String>,
}

impl StructuresOptions {
    fn wants(&self, figure: &Definition) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == figure.name)
    }
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
    /// A pool could not be opened in this process.
    #[error(transparent)]
    Opening(#[from] stonecast::Error),
    /// Another store refused something.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A run of the simulated world failed.
    #[error(transparent)]
    World(#[from] AsymError),
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
    /// A name is that of no figure.
    #[error("there is no figure {name:?}; the figures are {known}")]
    NoFigure {
        /// The name.
        name: String,
        /// The names of all figures.
        known: String,
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

fn is_right(store: &'static str, key: u64, found: Option<&Hundred>) -> Result<(), StructuresError> {
    match found {
        Some(value) if *value == Hundred::of(key) => Ok(()),
        _ => Err(StructuresError::Wrong { store, key }),
    }
}

/// Loads the keys below `keys`, `step` at a time, and tells `note` of each part that was loaded.
fn load<S: Keyed<Key = u64, Value = Hundred>>(
    writer: &mut BlockingWriter<S>,
    keys: u64,
    step: u64,
    mut note: impl FnMut(Range<u64>),
) -> Result<(), StructuresError> {
    let mut first = 0;
    while first < keys {
        let part = first..keys.min(first + step);
        let entries: Vec<_> = part.clone().map(|key| (key, Hundred::of(key))).collect();
        writer.bulk_load(entries.iter().map(|(key, value)| (key, value)))?;
        first = part.end;
        note(part);
    }
    Ok(())
}

type Tree = BTree<u64, Hundred>;

/// A back-end in a process of its own, on a new pool.
struct BackEnd {
    process: ServerProcess,
    place: PathBuf,
    _folder: TempDir,
}

impl BackEnd {
    /// `durability`: `process` or `power`.
    fn start(
        options: &StructuresOptions,
        place: (&Path, &'static str),
        capacity: u64,
    ) -> Result<Self, StructuresError> {
        Self::of(&options.program, place, capacity)
    }

    fn of(
        program: &Path,
        (parent, durability): (&Path, &'static str),
        capacity: u64,
    ) -> Result<Self, StructuresError> {
        let folder = tempfile::Builder::new()
            .prefix("stonecast-structures-")
            .tempdir_in(parent)?;
        let place = folder.path().join("structures");
        let arguments = ["serve", "--durability", durability, "--structures-capacity"];
        let mut instead: Vec<String> = arguments.map(str::to_owned).into();
        instead.extend([capacity.to_string(), "--structures".to_owned()]);
        instead.push(place.display().to_string());
        instead.extend(["--structures-lease", LEASE].map(str::to_owned));
        let process = ServerProcess::start(ServerOptions {
            program: program.to_owned(),
            parent: parent.to_owned(),
            durability,
            capacity,
            publishing: false,
            resp: false,
            instead: Some(instead),
        })?;
        Ok(Self {
            process,
            place,
            _folder: folder,
        })
    }

    fn url(&self) -> String {
        format!("shm:{}", self.place.join("socket").display())
    }
}

/// The figures of a group, each with its measured pairs.
type Pairs = Vec<(Definition, Vec<(f64, f64)>)>;

/// Measures the figures of a group.
type Measure = fn(&StructuresOptions) -> Result<Pairs, StructuresError>;

/// Measures the figures, each in turn with its yardstick.
///
/// # Errors
///
/// [`StructuresError`]: the figures do not exist.
pub fn compare_structures(options: &StructuresOptions) -> Result<Report, StructuresError> {
    let all = [
        &tree::FIGURES[..],
        &durable::FIGURES,
        &restart::FIGURES,
        &beside::FIGURES,
    ];
    let known = all.iter().flat_map(|figures| figures.iter());
    let known: Vec<&str> = known.map(|figure| figure.name).collect();
    if let Some(name) = options.only.iter().find(|name| !known.contains(&&***name)) {
        return Err(StructuresError::NoFigure {
            name: name.clone(),
            known: known.join(", "),
        });
    }
    let measures: [Measure; 4] = [
        tree::measure,
        durable::measure,
        restart::measure,
        beside::measure,
    ];
    let mut figures: Vec<Figure> = Vec::new();
    for (definitions, measure) in all.iter().zip(measures) {
        if !definitions.iter().any(|figure| options.wants(figure)) {
            continue;
        }
        // The figures of one group are measured together.
        for (definition, pairs) in measure(options)? {
            figures.extend(
                options
                    .wants(&definition)
                    .then(|| definition.figure(&pairs)),
            );
        }
    }
    Ok(Report {
        figures,
        not_run: Vec::new(),
    })
}
