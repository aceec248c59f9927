//! The same contest between real processes over shared memory: a server process for each design,
//! and client threads of this process. Times are wall-clock times of this machine; ratios of one
//! run say more.
//!
//! ```text
//!   this process                             the server's
//!   thread: device, executor, contestant --- published: serve_published, on memory of a folder
//!   thread: device, executor, contestant --- KV store:  `stonecast serve --durability process`
//! ```

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{BusyPoll, Device as _, DeviceError, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::{
    Ddio, DeclaredPlatform, Durability, LogOptions, MediaError, PersistenceDomain,
    PersistentRegion, Prepared, ReceiveBuffers, create_backing,
};
use stonecast_persist::execute::Commit;
use stonecast_published::{
    BaselineServer, ErdaOptions, ErdaServer, Geometry, PublishedError, SERVER_COMPLETIONS, Scheme,
};
use stonecast_workload::{Distribution, Mix, Sequence, SequenceOptions};

use super::cases::{MIXES, SERIES};
use super::contestant::{ContestError, Contestant, Design};
use super::run::{KEY_SIZE, Part, load, work};
use crate::papers::{Axes, Points, Sample, nothing_published};
use stonecast_bench::cpu_time::process_cpu_ns;
use stonecast_bench::kv::{ServerOptions, ServerProcess, ServerProcessError};

/// The name of the figures.
pub const REAL: &str = "erda-shm";
/// The figures. A polling server is never idle: the CPU time includes its polls.
pub static REAL_FIGURES: [Axes; 3] = [
    axes(
        "erda-shm-cpu",
        "CPU time of the server over shared memory by workload",
        "ns/op",
    ),
    axes(
        "erda-shm-latency",
        "Mean latency over shared memory by workload",
        "us",
    ),
    axes(
        "erda-shm-throughput",
        "Throughput over shared memory by workload",
        "kop/s",
    ),
];

const fn axes(name: &'static str, title: &'static str, unit: &'static str) -> Axes {
    Axes {
        name,
        title,
        x_title: "workload",
        unit,
        series: SERIES,
        published: nothing_published,
    }
}

/// The time for which either side polls before it sleeps: longer than every wait of a contest.
const SPIN_NS: Nanoseconds = 2_000_000;
/// Bytes of a value, as in the figures of throughput.
const VALUE_SIZE: usize = 64;
/// More bytes than a record of the KV store has beside key and value.
const RECORD_OVERHEAD: usize = 128;
/// The capacity of the KV store's log is a multiple of this.
const CAPACITY_STEP: u64 = 256 << 20;

/// The error of a real contest.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// A client or the store.
    #[error(transparent)]
    Contest(#[from] ContestError),
    /// A server process.
    #[error(transparent)]
    Server(#[from] ServerProcessError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The server's memory.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// A system call.
    #[error("{doing}: {source}")]
    System {
        /// The attempted action.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The size of a published design's store.
#[derive(Clone, Copy, Debug)]
pub struct PublishedStore {
    /// The design; not the KV store.
    pub design: Design,
    /// Keys that will be stored.
    pub keys: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// Number of writes after each key was stored once.
    pub writes: u64,
}

impl PublishedStore {
    /// The arguments with which `published` of [`RealOptions`] serves this store.
    fn arguments(&self) -> Vec<String> {
        let Self {
            design,
            keys,
            value_size,
            writes,
        } = self;
        [
            "serve-published",
            design.name(),
            "--keys",
            &keys.to_string(),
            "--value-size",
            &value_size.to_string(),
            "--writes",
            &writes.to_string(),
        ]
        .map(str::to_owned)
        .into()
    }

    fn geometry(&self) -> Geometry {
        Geometry::for_keys(KEY_SIZE, self.value_size, self.keys, self.writes)
    }
}

/// Serves a published design at `address` on new memory in `folder`, until this process is ended. Calls `ready` once
/// the server listens. The store keeps no data: its memory lives only as long as the folder.
pub fn serve_published(
    store: &PublishedStore,
    folder: &Path,
    address: &str,
    ready: impl FnOnce() -> std::io::Result<()>,
) -> Result<(), RealError> {
    let geometry = store.geometry();
    let memory = memory(folder, geometry.size())?;
    let device = ShmDevice::new(ShmOptions::default())?;
    let executor = BusyPoll::new(device.clone(), SPIN_NS);
    let port = Rc::new(Port::new(device.clone(), SERVER_COMPLETIONS)?);
    executor.add_port(&port);
    let runtime = executor.runtime();
    let tell = |device: &ShmDevice| {
        device.listen(address)?;
        ready().map_err(|source| RealError::System {
            doing: "writing the ready file",
            source,
        })
    };
    let scheme = match store.design {
        Design::ErdaPublished => {
            // The log has room for all writes: nothing is cleaned.
            let options = ErdaOptions {
                clean_at_percent: 100,
                ..ErdaOptions::default()
            };
            let server = ErdaServer::open(memory, port, runtime, geometry, options)
                .map_err(ContestError::from)?;
            tell(&device)?;
            return Ok(executor
                .block_on(server.run(&|| false))
                .map_err(ContestError::from)?);
        }
        Design::RedoLogging => Scheme::RedoLogging,
        Design::ReadAfterWrite => Scheme::ReadAfterWrite,
        Design::Kv => {
            return Err(ContestError::from(PublishedError::Protocol(
                "the KV store has a server of its own",
            ))
            .into());
        }
    };
    let commit = Commit::choose(PLATFORM, Durability::Process, memory.means())
        .expect("surviving processes demands nothing of a platform");
    let server = BaselineServer::open(memory, commit, port, runtime, geometry, scheme)
        .map_err(ContestError::from)?;
    tell(&device)?;
    Ok(executor
        .block_on(server.run(&|| false))
        .map_err(ContestError::from)?)
}

/// Nothing survives a power cut.
const PLATFORM: DeclaredPlatform = DeclaredPlatform {
    persistence_domain: PersistenceDomain::Volatile,
    ddio: Ddio::On,
    receive_buffers: ReceiveBuffers::Dram,
};

/// `size` bytes in `folder`, promised to survive only processes.
fn memory(folder: &Path, size: u64) -> Result<Rc<dyn PersistentRegion>, RealError> {
    let backing = create_backing(folder)?;
    let memory = backing.open_log(LogOptions {
        capacity: size,
        platform: PLATFORM,
        durability: Durability::Process,
    })?;
    while backing.prepare(Span::new(0, size))? == Prepared::Pending {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(memory)
}

/// The parameters of a real contest.
#[derive(Clone, Debug)]
pub struct RealOptions {
    /// The `stonecast` binary, which serves the store.
    pub program: PathBuf,
    /// The binary that serves published designs.
    pub published: PathBuf,
    /// The parent of the stores' folders, in volatile memory.
    pub parent: PathBuf,
    /// Keys stored before the measurement.
    pub keys: u64,
    /// Operations of each client in each workload.
    pub operations: u64,
    /// Clients that work at once, each on a thread of its own.
    pub clients: u32,
}

/// Runs the four workloads on each design, one after the other. Returns the points of [`REAL_FIGURES`].
pub fn real_points(options: &RealOptions, mut progress: impl FnMut()) -> Result<Points, RealError> {
    let mut points = REAL_FIGURES.map(|_| Vec::new());
    for design in Design::ALL {
        // Each workload runs after a warm-up of a tenth of its operations.
        let writes = 2 * options.operations * u64::from(options.clients) * MIXES.len() as u64;
        let store = PublishedStore {
            design,
            keys: options.keys,
            value_size: VALUE_SIZE,
            writes,
        };
        let server = start(options, &store)?;
        let address = server.address();
        with_contestant(&store, &address, |executor, contestant| {
            executor
                .block_on(load(contestant, 0..store.keys, VALUE_SIZE))
                .map(drop)
        })?;
        for mix in MIXES {
            let cpu = |doing| {
                process_cpu_ns(server.pid()).map_err(|source| RealError::System { doing, source })
            };
            let before = cpu("reading the server's CPU time")?;
            let run = run(options, &store, mix, &address)?;
            let used = cpu("reading the server's CPU time")? - before;
            let values = [
                used as f64 / run.operations as f64,
                run.latency_us,
                run.operations as f64 / run.seconds / 1e3,
            ];
            for ((points, axes), y) in points.iter_mut().zip(&REAL_FIGURES).zip(values) {
                let (series, x) = (design.name(), mix.name().to_owned());
                points.push(axes.point(Sample { series, x, y }));
            }
            progress();
        }
    }
    Ok(Points::from(points.concat()))
}

/// Number of times that `real_points` calls its `progress`.
pub const REAL_STEPS: u64 = (Design::ALL.len() * MIXES.len()) as u64;

fn start(options: &RealOptions, store: &PublishedStore) -> Result<ServerProcess, RealError> {
    let capacity =
        (2 * store.keys + store.writes) * (KEY_SIZE + VALUE_SIZE + RECORD_OVERHEAD) as u64;
    let is_published = store.design != Design::Kv;
    let program = if is_published {
        &options.published
    } else {
        &options.program
    };
    Ok(ServerProcess::start(ServerOptions {
        program: program.clone(),
        parent: options.parent.clone(),
        durability: "process",
        capacity: capacity.next_multiple_of(CAPACITY_STEP),
        publishing: false,
        resp: false,
        instead: is_published.then(|| store.arguments()),
    })?)
}

/// Starts clients together. A client that fails before the start does not delay the others.
struct Start<'a> {
    barrier: &'a Barrier,
    waited: Cell<bool>,
}

impl Start<'_> {
    fn wait(&self) {
        if !self.waited.replace(true) {
            self.barrier.wait();
        }
    }
}

impl Drop for Start<'_> {
    fn drop(&mut self) {
        self.wait();
    }
}

struct Measured {
    operations: u64,
    seconds: f64,
    latency_us: f64,
}

/// Connects a client of this thread, and calls a function with it.
fn with_contestant<T>(
    store: &PublishedStore,
    address: &str,
    work: impl FnOnce(&BusyPoll, Contestant) -> Result<T, ContestError>,
) -> Result<T, RealError> {
    let device = ShmDevice::new(ShmOptions::default())?;
    let executor = BusyPoll::new(device.clone(), SPIN_NS);
    let make_port = |completions| {
        let port = Rc::new(Port::new(device.clone(), completions)?);
        executor.add_port(&port);
        Ok(port)
    };
    let geometry = store.geometry();
    let connected = Contestant::connect(
        store.design,
        &make_port,
        executor.runtime(),
        address,
        &geometry,
    );
    let contestant = executor.block_on(connected)?;
    Ok(work(&executor, contestant)?)
}

fn run(
    options: &RealOptions,
    store: &PublishedStore,
    mix: Mix,
    address: &str,
) -> Result<Measured, RealError> {
    let each = options.operations;
    let sequence = Arc::new(Sequence::new(SequenceOptions {
        mix,
        distribution: Distribution::ScrambledZipfian,
        keys: store.keys,
        length: (each * u64::from(options.clients)) as usize,
        seed: 1,
    }));
    let barrier = Barrier::new(options.clients as usize);
    let client = |number: u64| -> Result<(Vec<u64>, Instant, Instant), RealError> {
        let start = Start {
            barrier: &barrier,
            waited: Cell::new(false),
        };
        let part = |count: u64| Part {
            sequence: sequence.clone(),
            operations: number * each..number * each + count,
            value_size: VALUE_SIZE,
            latencies: Rc::default(),
            cleaner: None,
        };
        with_contestant(store, address, |executor, contestant| {
            let contestant = executor.block_on(work(contestant, part((each / 10).max(1))))?;
            start.wait();
            let part = part(each);
            let latencies = part.latencies.clone();
            let begin = Instant::now();
            executor.block_on(work(contestant, part))?;
            Ok((latencies.take(), begin, Instant::now()))
        })
    };
    let client = &client;
    let ended: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..u64::from(options.clients))
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a client does not panic"))
            .collect::<Result<_, _>>()
    })?;
    let begin = ended
        .iter()
        .map(|(_, begin, _)| *begin)
        .min()
        .expect("there is a client");
    let end = ended
        .iter()
        .map(|(_, _, end)| *end)
        .max()
        .expect("there is a client");
    let latencies = ended.iter().flat_map(|(latencies, ..)| latencies);
    let operations = ended
        .iter()
        .map(|(latencies, ..)| latencies.len() as u64)
        .sum::<u64>();
    Ok(Measured {
        operations,
        seconds: (end - begin).as_secs_f64(),
        latency_us: latencies.sum::<u64>() as f64 / operations as f64 / 1e3,
    })
}
