//! Large tables: a hash table and a B+tree, each built in a pool of its own, read, and found again after its back-end
//! was killed.
//!
//! ```text
//!   build    entries in the order of their keys: 4,096 at a time into a tree, a million into a hash table
//!   get      random keys, with the inner places cached
//!   scan     every entry once: by key in a tree, by segments in a hash table
//!   restart  SIGKILL, start, the first look-up; the pages of the pool that the new process touched
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use serde::Serialize;
use stonecast::structures::{
    self, BTree, BlockingReader, BlockingSession, BlockingWriter, HashTable, Keyed,
    connect_blocking,
};
use stonecast_base::random_from_seed;

use super::{BackEnd, Hundred, StructuresError, VALUE_SIZE, is_right, load};

/// Entries of a load into a tree, and into a hash table, which are sorted by their places there.
const LOADED: u64 = 4096;
const LOADED_BY_PLACE: u64 = 1 << 20;
/// Entries of the load between two notes of progress.
const NOTED: u64 = 1 << 20;
/// Look-ups between two readings of the clock.
const ROUND: usize = 64;
/// Bytes that a reader caches: the directory, or the upper nodes.
const CACHE_SIZE: u64 = 256 << 20;
/// Bytes of a pool for each entry: 144 in full leaves; in a hash table an item of 128 bytes, and 12 to 24 of buckets.
const BYTES_PER_ENTRY: u64 = 192;
/// Bytes of a pool beside those of the entries: logs.
const ROOM: u64 = 256 << 20;
const NAME: &str = "entries";

/// A kind of table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// A hash table.
    HashTable,
    /// A B+tree.
    BTree,
}

impl Table {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::HashTable => "hash-table",
            Self::BTree => "b-tree",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::HashTable => "the hash table",
            Self::BTree => "the B+tree",
        }
    }

    const fn loaded(self) -> u64 {
        match self {
            Self::HashTable => LOADED_BY_PLACE,
            Self::BTree => LOADED,
        }
    }
}

/// The parameters of [`measure_table`].
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Entries of the table, of 8 + 100 bytes.
    pub entries: u64,
    /// Duration of the random look-ups.
    pub duration: Duration,
    /// Seed of the keys that are looked up.
    pub seed: u64,
    /// The `stonecast` binary, for the back-end.
    pub program: PathBuf,
    /// The folder of the pool, which is removed at the end.
    pub folder: PathBuf,
    /// `process` or `power`.
    pub durability: &'static str,
}

/// The figures of a table. The field names are an interface: scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableFigures {
    /// The kind of table.
    pub table: &'static str,
    /// Entries of the table.
    pub entries: u64,
    /// Seconds until everything was published.
    pub build_seconds: f64,
    /// Bytes of the slabs of the table for each entry, those of a slab that is not full included.
    pub bytes_per_entry: f64,
    /// Look-ups of random keys a second.
    pub gets_per_second: f64,
    /// Entries of a scan over everything a second.
    pub scanned_per_second: f64,
    /// Private memory of the back-end before it was killed.
    pub back_end_bytes: u64,
    /// Seconds from the start of the new back-end until it served.
    pub restart_seconds: f64,
    /// Bytes of the pool, in pages, that the new back-end had touched when it served.
    pub restart_touched_bytes: u64,
    /// Look-ups of random keys a second after the restart.
    pub gets_after_restart_per_second: f64,
}

/// A table of the library.
trait Measured: Keyed<Key = u64, Value = Hundred> + Sized {
    const TABLE: Table;

    /// Every entry once.
    fn entries(
        reader: &mut BlockingReader<Self>,
    ) -> impl Iterator<Item = Result<(u64, Hundred), structures::Error>>;
}

impl Measured for BTree<u64, Hundred> {
    const TABLE: Table = Table::BTree;

    fn entries(
        reader: &mut BlockingReader<Self>,
    ) -> impl Iterator<Item = Result<(u64, Hundred), structures::Error>> {
        reader.range(..)
    }
}

impl Measured for HashTable<u64, Hundred> {
    const TABLE: Table = Table::HashTable;

    fn entries(
        reader: &mut BlockingReader<Self>,
    ) -> impl Iterator<Item = Result<(u64, Hundred), structures::Error>> {
        reader.scan()
    }
}

/// Builds a table, reads it, kills its back-end, and reads it again. `say` gets notes of progress.
///
/// # Errors
///
/// [`StructuresError`]: there are no figures.
pub fn measure_table(
    table: Table,
    options: &TableOptions,
    say: &mut dyn FnMut(&str),
) -> Result<TableFigures, StructuresError> {
    match table {
        Table::HashTable => measured::<HashTable<u64, Hundred>>(options, say),
        Table::BTree => measured::<BTree<u64, Hundred>>(options, say),
    }
}

fn measured<S: Measured>(
    options: &TableOptions,
    say: &mut dyn FnMut(&str),
) -> Result<TableFigures, StructuresError> {
    let entries = options.entries;
    let capacity = ROOM + entries * BYTES_PER_ENTRY * 9 / 8;
    let place = (options.folder.as_path(), options.durability);
    let mut back_end = BackEnd::of(&options.program, place, capacity)?;
    let session = connect_blocking(&back_end.url())?;
    let build_seconds = build::<S>(&session, entries, say)?;
    let states = session.stat()?;
    let memory: u64 = states.iter().map(|state| state.memory).sum();
    say("looking up");
    let gets_per_second = look_up::<S>(&session, options)?;
    say("scanning");
    let scanned_per_second = scan::<S>(&session, entries)?;
    drop(session);
    let back_end_bytes = private_bytes(back_end.process.pid())?;
    say("restarting");
    back_end.process.kill();
    let start = Instant::now();
    back_end.process.restart()?;
    let restart_seconds = start.elapsed().as_secs_f64();
    let restart_touched_bytes = touched_bytes(back_end.process.pid(), &options.folder)?;
    let session = connect_blocking(&back_end.url())?;
    let gets_after_restart_per_second = look_up::<S>(&session, options)?;
    Ok(TableFigures {
        table: S::TABLE.name(),
        entries,
        build_seconds,
        bytes_per_entry: memory as f64 / entries as f64,
        gets_per_second,
        scanned_per_second,
        back_end_bytes,
        restart_seconds,
        restart_touched_bytes,
        gets_after_restart_per_second,
    })
}

/// Returns the seconds of the load.
fn build<S: Measured>(
    session: &BlockingSession,
    entries: u64,
    say: &mut dyn FnMut(&str),
) -> Result<f64, StructuresError> {
    let start = Instant::now();
    let mut writer: BlockingWriter<S> = session.writer(NAME)?;
    load(&mut writer, entries, S::TABLE.loaded(), |part| {
        if part.start / NOTED != part.end / NOTED {
            let seconds = start.elapsed().as_secs_f64();
            say(&format!(
                "{} of {entries} entries in {seconds:.1} s",
                part.end
            ));
        }
    })?;
    writer.release()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Looks random keys up, and one that is missing. Returns the look-ups of a second.
fn look_up<S: Measured>(
    session: &BlockingSession,
    options: &TableOptions,
) -> Result<f64, StructuresError> {
    let mut reader = session.reader_caching::<S>(NAME, CACHE_SIZE)?;
    let mut random = random_from_seed(options.seed);
    let store = S::TABLE.words();
    let wrong = |key| StructuresError::Wrong { store, key };
    if reader.len()? != options.entries || reader.get(&options.entries)?.is_some() {
        return Err(wrong(options.entries));
    }
    super::rate(options.duration, || {
        for _ in 0..ROUND {
            let key = random.random_range(0..options.entries);
            is_right(store, key, reader.get(&key)?.as_ref())?;
        }
        Ok(ROUND)
    })
}

/// Reads every entry, and sums all keys up. Returns the entries of a second.
fn scan<S: Measured>(session: &BlockingSession, entries: u64) -> Result<f64, StructuresError> {
    let mut reader = session.reader_caching::<S>(NAME, CACHE_SIZE)?;
    let store = S::TABLE.words();
    let (start, mut count, mut sum) = (Instant::now(), 0, 0_u128);
    for entry in S::entries(&mut reader) {
        let (key, value) = entry?;
        count += 1;
        sum += u128::from(key);
        is_right(store, key, Some(&value))?;
    }
    let all = u128::from(entries) * u128::from(entries - 1) / 2;
    match (count, sum) == (entries, all) {
        true => Ok(entries as f64 / start.elapsed().as_secs_f64()),
        false => Err(StructuresError::Wrong { store, key: count }),
    }
}

/// Private resident bytes of a process.
fn private_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let missing = || io::Error::other("the kernel does not tell the resident bytes of a process");
    line.and_then(bytes_of_kilobytes).ok_or_else(missing)
}

/// Resident bytes of the files in `folder` that a process has mapped.
fn touched_bytes(pid: u32, folder: &Path) -> io::Result<u64> {
    let folder = fs::canonicalize(folder)?;
    let mut is_there = false;
    let mut bytes = 0;
    // A mapping begins with a line of addresses, permissions and a path; lines of numbers follow (proc_pid_smaps(5)).
    for line in fs::read_to_string(format!("/proc/{pid}/smaps"))?.lines() {
        if let Some(resident) = line.strip_prefix("Rss:") {
            bytes += bytes_of_kilobytes(resident)
                .filter(|_| is_there)
                .unwrap_or(0);
        } else if !line.contains(" kB") && !line.starts_with("VmFlags:") {
            let path = line.find('/').map(|start| Path::new(&line[start..]));
            is_there = path.is_some_and(|path| path.starts_with(&folder));
        }
    }
    Ok(bytes)
}

/// The bytes of a text like `12 kB`.
fn bytes_of_kilobytes(text: &str) -> Option<u64> {
    let number = text.split_whitespace().next()?;
    number.parse().ok().map(|kilobytes: u64| kilobytes << 10)
}

impl TableFigures {
    /// The figures for people, each with its name.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let Self { entries, .. } = *self;
        let rate = entries as f64 / self.build_seconds;
        let data = (size_of::<u64>() + VALUE_SIZE) as f64;
        vec![
            ("table", self.table.to_owned()),
            ("entries", entries.to_string()),
            (
                "build",
                format!("{:.1} s, {rate:.0} entries/s", self.build_seconds),
            ),
            (
                "memory",
                format!(
                    "{:.1} B each entry, {:.2} times its bytes",
                    self.bytes_per_entry,
                    self.bytes_per_entry / data
                ),
            ),
            ("GET", format!("{:.0}/s", self.gets_per_second)),
            ("scan", format!("{:.0} entries/s", self.scanned_per_second)),
            ("back-end", mib(self.back_end_bytes)),
            (
                "restart",
                format!(
                    "{:.3} s, {} of the pool touched",
                    self.restart_seconds,
                    mib(self.restart_touched_bytes)
                ),
            ),
            (
                "GET after it",
                format!("{:.0}/s", self.gets_after_restart_per_second),
            ),
        ]
    }
}
