//! LMDB in this process.
//!
//! The configuration is the best for reads that need no durability: nothing is synced, the file is mapped writable, no
//! thread is tied to a reader slot. There are two ways of reading ([`View`]): the fastest way, as if there were no
//! writers, and the way with the promise of a GET of the store, the latest value in the caller's own memory.
//!
//! The binding is `lmdb-rkv`, because opening with `heed` takes unsafe code. Both call the same C library, and reads
//! through either take the same time.

use std::path::Path;
use std::time::{Duration, Instant};

use ::lmdb::{Database, Environment, EnvironmentFlags, Transaction as _, WriteFlags};
use stonecast_workload::Sequence;
use tempfile::TempDir;

use super::PeerError;
use stonecast_bench::DataSet;
use stonecast_bench::Measured;
use stonecast_bench::Stopwatch;
use stonecast_bench::cpu_time::thread_cpu_ns;

/// Operations between two readings of the clock.
const ROUND: u64 = 1024;

/// The promise of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// One read transaction serves all reads, which see its snapshot and return references into the
    /// mapping. The loop reads one byte of each value.
    Snapshot,
    /// Each read sees everything committed before it, and copies the value: a reference ends with
    /// its transaction. The transaction is renewed, not begun, which is LMDB's fastest way to do
    /// this.
    Latest,
}

/// An LMDB environment in this process.
pub struct Lmdb {
    environment: Environment,
    database: Database,
    data: DataSet,
    _folder: TempDir,
}

impl Lmdb {
    /// Creates an environment in a new folder under `parent` and stores all records of `data`.
    pub fn load(data: DataSet, parent: &Path) -> Result<Self, PeerError> {
        let (environment, folder) = open(parent, map_size(&data), Syncs::Never)?;
        let database = environment.open_db(None)?;
        let mut transaction = environment.begin_rw_txn()?;
        data.try_for_each(|key, value| {
            transaction.put(database, &key, &value, WriteFlags::empty())
        })?;
        transaction.commit()?;
        Ok(Self {
            environment,
            database,
            data,
            _folder: folder,
        })
    }

    /// Reads the keys of `sequence` until `duration` has passed, timing one in `interval` reads.
    pub fn measure_gets(
        &self,
        view: View,
        sequence: &Sequence,
        interval: u32,
        duration: Duration,
    ) -> Result<Measured, PeerError> {
        let mut transaction = self.environment.begin_ro_txn()?;
        let mut copy = Vec::new();
        let mut cursor = sequence.cursor(0);
        let mut stopwatch = Stopwatch::every(interval);
        let (mut ops, mut errors) = (0, 0);
        let cpu_start = thread_cpu_ns().map_err(PeerError::system("reading the CPU time"))?;
        let start = Instant::now();
        while start.elapsed() < duration {
            for _ in 0..ROUND {
                let key = cursor.take().key();
                let began = stopwatch.begin();
                if view == View::Latest {
                    transaction = transaction.reset().renew()?;
                }
                let found = transaction
                    .get(self.database, &key)
                    .ok()
                    .filter(|value| value.len() == self.data.value_size);
                match (found, view) {
                    (Some(value), View::Snapshot) => {
                        _ = std::hint::black_box(value.last().copied())
                    }
                    (Some(value), View::Latest) => {
                        copy.clear();
                        copy.extend_from_slice(value);
                        std::hint::black_box(&copy);
                    }
                    (None, _) => errors += 1,
                }
                stopwatch.end(began);
            }
            ops += ROUND;
        }
        let seconds = start.elapsed().as_secs_f64();
        let cpu_end = thread_cpu_ns().map_err(PeerError::system("reading the CPU time"))?;
        Ok(Measured {
            ops,
            errors,
            seconds,
            client_cpu_ns: cpu_end - cpu_start,
            latencies: stopwatch.into_latencies(),
            ..Measured::default()
        })
    }
}

/// The moments at which an environment syncs its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// Never: a transaction survives the death of the process alone.
    Never,
    /// In each commit, by LMDB's default mode: a transaction survives the loss of power.
    EachCommit,
}

/// Opens an environment in a new folder under `parent`, with `map_size` bytes of address space.
pub(crate) fn open(
    parent: &Path,
    map_size: usize,
    syncs: Syncs,
) -> Result<(Environment, TempDir), PeerError> {
    let folder = tempfile::Builder::new().prefix("lmdb-").tempdir_in(parent);
    let folder = folder.map_err(PeerError::system("making a folder for LMDB"))?;
    let unsynced = EnvironmentFlags::NO_SYNC | EnvironmentFlags::WRITE_MAP;
    let flags = EnvironmentFlags::NO_TLS | EnvironmentFlags::NO_READAHEAD;
    let flags = match syncs {
        Syncs::Never => flags | unsynced,
        Syncs::EachCommit => flags,
    };
    let environment = Environment::new()
        .set_flags(flags)
        .set_map_size(map_size)
        .open(folder.path())?;
    Ok((environment, folder))
}

/// Address space for the data: random inserts leave pages half full, and there are branch pages.
fn map_size(data: &DataSet) -> usize {
    let record_size = data.value_size + 64;
    (data.keys as usize * record_size * 3 + (64 << 20)).next_multiple_of(1 << 20)
}
