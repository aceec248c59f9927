//! A load on one back-end: writers, each on a structure of its own, and readers of the first one.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_bench::crowd::Crowd;
use stonecast_fabric_sim::{
    Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain,
    PersistentRegion, ReceiveBuffers,
};
use stonecast_published::PublishedError;
use stonecast_published::asymnvm::{CacheOptions, Change, Policy, Variant};
use stonecast_structures::shapes::{Description, StructureKind};
use stonecast_structures::{AttachError, FrontEndError, Key as _, ServiceError, Verb};
use stonecast_workload::{Chooser, Distribution};

use super::ours::Ours;
use super::published::Published;

/// The machines of the paper.
pub(super) const MACHINES: &str = "connectx3-asymnvm";
/// Hardware threads of a machine: a Xeon E5-2640 v2 has 8 cores.
const CORES: usize = 8;
/// Keys that are loaded before a measurement.
pub const KEYS: u64 = 4_096;
/// Bytes of keys and of values.
const WORD: usize = 8;

/// The measured case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AsymLoad {
    /// The store.
    pub store: AsymStore,
    /// The structure.
    pub kind: StructureKind,
    /// The machines, and what else no table varies.
    pub setting: Setting,
    /// Operations that are not acknowledged, at most. As many are known when the first of them begins.
    pub in_flight: usize,
    /// Operations that are made visible together.
    pub batch: usize,
    /// The cache.
    pub cache: Cached,
    /// Front-ends that write, each a structure of its own.
    pub writers: u32,
    /// Front-ends that read the first structure.
    pub readers: u32,
    /// Operations of a hundred that are updates; the writers look up with the others.
    pub write_percent: u32,
    /// The keys.
    pub keys: AsymKeys,
    /// Operations of each writer.
    pub operations: u64,
    /// Time that the program of a writer needs for each operation beside what the simulator counts.
    pub program_ns: Nanoseconds,
}

/// The store of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsymStore {
    /// A variant of the paper.
    Published(Variant),
    /// A variant of the paper with a READ behind each append that makes the append durable.
    Flushed(Variant),
    /// A variant of the paper that takes the write lock for each transaction.
    Locked(Variant),
    /// A variant of the paper whose front-end waits behind each transaction until the back-end has applied it.
    Applied(Variant),
    /// `structures`. A front-end waits for all operations in flight before it goes on, and for its publications.
    Ours,
    /// `structures`. A front-end goes on while the back-end applies its publications.
    Ahead,
    /// `structures`. A front-end goes on behind its publications, and waits for the oldest operation in flight alone.
    Sliding,
    /// [`AsymStore::Ours`] with a mirror on a machine of its own.
    Mirrored,
}

/// The machines, and respects of a published store that the paper does not state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setting {
    /// Whether the NIC of the back-end writes to its processor's cache.
    pub ddio: Ddio,
    /// What survives a power cut.
    pub domain: PersistenceDomain,
    /// Bytes that the NICs of front-ends take with the descriptor; `None`: as the profile has it.
    pub nic_inline_bytes: Option<u64>,
    /// Bytes of each log of a published back-end.
    pub log_size: u64,
    /// Bytes of a READ of a published writer, at most.
    pub read_size_max: u64,
}

impl Setting {
    /// The setting of all figures that do not say otherwise.
    pub const fn with(ddio: Ddio) -> Self {
        Self {
            ddio,
            domain: PersistenceDomain::Dmp,
            nic_inline_bytes: None,
            log_size: 16 << 20,
            read_size_max: u64::MAX,
        }
    }
}

/// The keys of a writer's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsymKeys {
    /// The frequencies of the loaded ones.
    pub frequencies: Distribution,
    /// Those that are loaded before a measurement.
    pub loaded: u64,
    /// Whether half of the updates are of keys that are not there yet.
    pub are_added: bool,
}

impl AsymKeys {
    /// All as often, and new ones.
    pub const UNIFORM: Self = Self {
        frequencies: Distribution::Uniform,
        loaded: KEYS,
        are_added: true,
    };
    /// By a power law with exponent 0.99, and new ones.
    pub const ZIPFIAN: Self = Self {
        frequencies: Distribution::ScrambledZipfian,
        loaded: KEYS,
        are_added: true,
    };
    /// By the same power law, and none but loaded ones, as in YCSB A to C.
    pub const YCSB: Self = Self {
        are_added: false,
        ..Self::ZIPFIAN
    };
}

/// The cache of a published front-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cached {
    /// Bytes of its pages.
    pub size: u64,
    /// The policy.
    pub policy: Policy,
    /// Whether trees leave deep nodes out.
    pub by_level: bool,
    /// Whether the time of the cache's memory counts.
    pub counts: bool,
    /// Whether the writer has made the structure itself and knows all that it has read and written, whatever the size.
    pub remembers: bool,
}

impl Cached {
    /// A cache that holds everything and takes no time, as the memory of a writer of `structures`.
    pub const ALL: Self = Self {
        size: 256 << 20,
        policy: Policy::Sample(32),
        by_level: false,
        counts: false,
        remembers: false,
    };
    /// As [`Cached::ALL`], and what the writer has written is kept, too.
    pub const WRITTEN: Self = Self {
        remembers: true,
        ..Self::ALL
    };
    /// The paper's policy, with room for a tenth of what is loaded.
    pub const TENTH: Self = Self::tenth_of(KEYS);

    /// The paper's policy, with room for a tenth of so many rows.
    pub(super) const fn tenth_of(rows: u64) -> Self {
        Self {
            size: rows * 64 / 10,
            ..Self::ALL
        }
    }

    pub(super) fn options(self) -> CacheOptions {
        CacheOptions {
            size: self.size,
            policy: self.policy,
            by_level: self.by_level,
        }
    }
}

impl AsymLoad {
    /// Inserts of one front-end: one operation at a time, batches of 1,024.
    pub fn inserts(store: AsymStore, kind: StructureKind) -> Self {
        Self {
            store,
            kind,
            setting: Setting::with(Ddio::Off),
            in_flight: 1,
            batch: 1024,
            cache: Cached::ALL,
            writers: 1,
            readers: 0,
            write_percent: 100,
            keys: AsymKeys::UNIFORM,
            operations: 2048,
            program_ns: 0,
        }
    }

    pub(super) fn description(&self) -> Description {
        let key_size_max = match self.kind.has_keys() {
            true => WORD as u16,
            false => 0,
        };
        Description {
            kind: self.kind,
            key_size_max,
            value_size: WORD as u32,
            schema: 0,
        }
    }

    /// The declaration of the back-end's machine.
    pub(super) fn platform(&self) -> DeclaredPlatform {
        DeclaredPlatform {
            persistence_domain: self.setting.domain,
            ddio: self.setting.ddio,
            receive_buffers: ReceiveBuffers::Dram,
        }
    }

    /// The changes that are done before the measurement.
    pub(super) fn loaded(&self) -> impl Iterator<Item = Change> + use<> {
        let has_keys = self.kind.has_keys();
        (0..self.keys.loaded).map(move |number| match has_keys {
            true => insert(number),
            false => push(number),
        })
    }
}

/// The number of a key to the key: neighbours lie far from each other.
pub(super) fn key_of(number: u64) -> Vec<u8> {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).encoded()
}

fn insert(number: u64) -> Change {
    Change {
        verb: Verb::Insert,
        key: key_of(number),
        value: number.to_le_bytes().to_vec(),
    }
}

fn push(number: u64) -> Change {
    Change {
        verb: Verb::Push,
        key: Vec::new(),
        value: number.to_le_bytes().to_vec(),
    }
}

/// One operation of a writer.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Change(Change),
    /// A look-up of a key.
    Get(Vec<u8>),
}

/// The operations of a writer: half of the updates are of keys that are not there yet, or none is; stacks and queues
/// are pushed and popped in turn, at random.
pub(super) struct Steps {
    random: Random,
    chooser: Chooser,
    has_keys: bool,
    write_percent: u32,
    are_added: bool,
    next: u64,
}

impl Steps {
    pub fn new(load: &AsymLoad, writer: u32) -> Self {
        Self {
            random: random_from_seed(u64::from(writer) + 1),
            chooser: Chooser::new(load.keys.frequencies, load.keys.loaded),
            has_keys: load.kind.has_keys(),
            write_percent: load.write_percent,
            are_added: load.keys.are_added,
            next: load.keys.loaded,
        }
    }

    pub fn take(&mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.one()).collect()
    }

    fn one(&mut self) -> Step {
        let is_write = self.random.random_range(0..100) < self.write_percent;
        if !self.has_keys {
            let is_push = self.random.random_range(0..2) == 0;
            let change = push(self.next);
            return Step::Change(match is_push {
                true => change,
                false => Change {
                    verb: Verb::Pop,
                    value: Vec::new(),
                    ..change
                },
            });
        }
        if !is_write {
            return Step::Get(key_of(self.chooser.next(&mut self.random)));
        }
        let is_new = self.are_added && self.random.random_range(0..2) == 0;
        let number = match is_new {
            true => {
                self.next += 1;
                self.next
            }
            false => self.chooser.next(&mut self.random),
        };
        Step::Change(insert(number))
    }
}

/// The measurement of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AsymOutcome {
    /// Thousands of operations a second of each writer, in the mean.
    pub kops: f64,
    /// Thousands of look-ups a second of each reader, in the mean.
    pub reader_kops: f64,
    /// The share of readers' attempts that were repeated.
    pub retries: f64,
    /// Round trips of READs for an operation of a writer; unknown for `structures`.
    pub trips: f64,
    /// WRITEs for an operation of a writer; unknown for `structures`.
    pub writes: f64,
    /// Nodes that were not in the cache, of all that were looked for.
    pub misses: f64,
    /// Part of the time that the back-end's process has worked.
    pub back_end_busy: f64,
    /// Part of the time that the first front-end has worked.
    pub front_end_busy: f64,
    /// The hash of all events.
    pub hash: u64,
}

/// The error of a run.
#[derive(Debug, thiserror::Error)]
pub enum AsymError {
    /// A published variant failed.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// A front-end of `structures` failed.
    #[error(transparent)]
    FrontEnd(#[from] FrontEndError),
    /// The back-end of `structures` failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The back-end of `structures` does not start with its mirror.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The store has no tables for an application.
    #[error(
        "applications are measured for front-ends of structures that wait for all operations alone; measure structures, with a mirror or without"
    )]
    NoTables,
    /// A transaction of an application has read what no serial execution gives.
    #[error("transaction {number} has read what no serial execution gives")]
    NotSerial {
        /// Transactions before it.
        number: u64,
    },
}

/// A back-end with its front-ends in a world.
pub(super) trait Contestant {
    type Writer: FrontEnd + 'static;
    type Reader: Look + 'static;

    fn world(&self) -> &World;
    fn back_end(&self) -> &Process;
    /// A writer of the structure `number` whose cache is warm.
    fn writer(&self, number: u32) -> Result<(Process, Self::Writer), AsymError>;
    /// A reader of the first structure.
    fn reader(&self) -> Result<(Process, Self::Reader), AsymError>;
}

/// A writer.
pub(super) trait FrontEnd {
    /// Does operations that are all known when the first one begins.
    async fn run(&mut self, steps: &[Step]) -> Result<(), AsymError>;
    /// Waits until everything is acknowledged.
    async fn settle(&mut self) -> Result<(), AsymError>;
    /// Round trips, WRITEs, hits and misses so far.
    fn counts(&self) -> [u64; 4];
}

/// A reader.
pub(super) trait Look {
    async fn get(&mut self, key: &[u8]) -> Result<(), AsymError>;
    /// Look-ups, and tries that were repeated.
    fn counts(&self) -> [u64; 2];
}

/// Runs a load.
///
/// # Errors
/// [`AsymError`].
pub fn measure(load: &AsymLoad) -> Result<AsymOutcome, AsymError> {
    match load.store {
        AsymStore::Ours | AsymStore::Sliding | AsymStore::Ahead | AsymStore::Mirrored => {
            run(&Ours::new(load)?, load)
        }
        _ => run(&Published::new(load)?, load),
    }
}

/// The counters of a writer over the measured time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub duration_ns: Nanoseconds,
    counts: [u64; 4],
    front_end_ns: Nanoseconds,
    back_end_ns: Nanoseconds,
}

/// Runs a load on a contestant.
pub(super) fn run<C: Contestant>(
    contestant: &C,
    load: &AsymLoad,
) -> Result<AsymOutcome, AsymError> {
    let (writers, readers, over) = (Crowd::new(), Crowd::new(), Rc::new(Cell::new(false)));
    let back_end = contestant.back_end();
    // All are connected before the first one begins.
    let of_writers: Vec<_> = (0..load.writers)
        .map(|number| contestant.writer(number))
        .collect::<Result<_, _>>()?;
    let of_readers: Vec<_> = (0..load.readers)
        .map(|_| contestant.reader())
        .collect::<Result<_, _>>()?;
    for (number, (process, writer)) in (0..).zip(of_writers) {
        let of = (process.clone(), back_end.clone());
        let working = write(load.clone(), number, of, writer);
        writers.spawn(&*process.runtime(), working);
    }
    for (number, (process, reader)) in (0..).zip(of_readers) {
        let working = read(process.clone(), reader, number, over.clone());
        readers.spawn(&*process.runtime(), working);
    }
    let world = contestant.world();
    let works: Vec<Result<Work, AsymError>> = world.block_on(writers.ends());
    over.set(true);
    let reads: Vec<Result<[f64; 3], AsymError>> = world.block_on(readers.ends());
    let works = works.into_iter().collect::<Result<Vec<_>, _>>()?;
    let reads = reads.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mean = |values: Vec<f64>| match values.len() {
        0 => 0.0,
        count => values.iter().sum::<f64>() / count as f64,
    };
    let operations = measured(load) as f64;
    let first = works[0];
    let [trips, writes, hits, misses] = first.counts.map(|count| count as f64);
    let part = |busy: Nanoseconds| busy as f64 / first.duration_ns as f64;
    let rate = |work: &Work| operations * 1e6 / work.duration_ns as f64;
    let sum = |at: usize| reads.iter().map(|read| read[at]).sum::<f64>();
    Ok(AsymOutcome {
        kops: mean(works.iter().map(rate).collect()),
        reader_kops: mean(reads.iter().map(|read| read[0]).collect()),
        retries: sum(2) / (sum(1) + sum(2)).max(1.0),
        trips: trips / operations,
        writes: writes / operations,
        misses: misses / (hits + misses).max(1.0),
        back_end_busy: part(first.back_end_ns),
        front_end_busy: part(first.front_end_ns),
        hash: world.hash(),
    })
}

/// Operations after the warm-up.
pub(super) fn measured(load: &AsymLoad) -> u64 {
    load.operations - load.operations / 4
}

pub(super) async fn write<W: FrontEnd>(
    load: AsymLoad,
    number: u32,
    (process, back_end): (Process, Process),
    mut writer: W,
) -> Result<Work, AsymError> {
    let (mut steps, runtime) = (Steps::new(&load, number), process.runtime());
    let mut left = load.operations / 4;
    let (mut begin, mut before, mut busy) = (0, [0; 4], [0; 2]);
    for phase in 0..2 {
        if phase == 1 {
            writer.settle().await?;
            (begin, before) = (runtime.now(), writer.counts());
            busy = [process.core_busy_ns(), back_end.core_busy_ns()];
            left = measured(&load);
        }
        while left > 0 {
            let count = left.min(load.in_flight as u64);
            writer.run(&steps.take(count as usize)).await?;
            if load.program_ns > 0 {
                runtime.sleep(load.program_ns * count).await;
            }
            left -= count;
        }
    }
    writer.settle().await?;
    let after = writer.counts();
    Ok(Work {
        duration_ns: runtime.now() - begin,
        counts: [0, 1, 2, 3].map(|at| after[at] - before[at]),
        front_end_ns: process.core_busy_ns() - busy[0],
        back_end_ns: back_end.core_busy_ns() - busy[1],
    })
}

/// Looks keys up until the writers have ended. Returns thousands a second, look-ups, and repeated tries.
async fn read<R: Look>(
    process: Process,
    mut reader: R,
    number: u64,
    over: Rc<Cell<bool>>,
) -> Result<[f64; 3], AsymError> {
    let (mut random, runtime) = (random_from_seed(number + 1000), process.runtime());
    let begin = runtime.now();
    while !over.get() {
        reader.get(&key_of(random.random_range(0..KEYS))).await?;
    }
    let [reads, retries] = reader.counts().map(|count| count as f64);
    let duration_ns = (runtime.now() - begin).max(1);
    Ok([reads * 1e6 / duration_ns as f64, reads, retries])
}

/// A machine of the paper with this declaration.
pub(super) fn machine(world: &World, platform: DeclaredPlatform) -> Machine {
    let profile = MachineProfile::by_name(MACHINES).expect("the profile is shipped");
    world.machine(MachineOptions {
        platform,
        cores: CORES,
        ..MachineOptions::new(profile)
    })
}

/// A machine of a front-end.
pub(super) fn front_end_machine(world: &World, load: &AsymLoad) -> Machine {
    let mut profile = MachineProfile::by_name(MACHINES).expect("the profile is shipped");
    let inline = load.setting.nic_inline_bytes;
    profile.nic_inline_bytes = inline.unwrap_or(profile.nic_inline_bytes);
    world.machine(MachineOptions {
        platform: load.platform(),
        cores: CORES,
        ..MachineOptions::new(profile)
    })
}

/// Persistent memory in a machine.
pub(super) fn memory(
    world: &World,
    machine: Machine,
    platform: DeclaredPlatform,
    size: u64,
) -> (Rc<Module>, Rc<dyn PersistentRegion>) {
    let module = world.module(machine, Survivor::default());
    let log = LogOptions {
        capacity: size,
        platform,
        durability: Durability::Power,
    };
    let memory = SimBacking::new(&module)
        .open_log(log)
        .expect("the declaration fits the platform");
    (module, memory)
}
