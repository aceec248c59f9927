//! A run of a workload of YCSB: client threads, each with a connection of its own, against a server process.
//!
//! ```text
//!   thread   connect, warm up |        measured loop |       (first: look up the limit) | bare loop |
//!   caller                    |  CPU  |  watches     |  CPU  |                          |
//! ```
//!
//! All threads begin and end each part together, so that the measurement covers all of them at once.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use stonecast_kv::StoreError;
use stonecast_workload::{Distribution, Mix, Sequence, SequenceOptions};

use super::devices::{Devices, SharedMemory};
use super::drive::{Amount, DriveError, Loop};
use super::limit::{Limit, LimitError, Order};
use super::session::Session;
use crate::cpu_time::process_cpu_ns;
use crate::data_set::DataSet;
use crate::latency::{clock_look_ns, timing_interval};
use crate::measured::Measured;
use crate::result::YcsbResult;

/// The measured server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address at which the server listens.
    pub address: String,
    /// The server's process number, for its CPU time; `None` if the server may be on another machine.
    pub server_pid: Option<u32>,
}

/// The options of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YcsbOptions {
    /// The mix of operations.
    pub mix: Mix,
    /// The distribution of keys.
    pub distribution: Distribution,
    /// The records in the store.
    pub data: DataSet,
    /// The number of client threads.
    pub clients: u32,
    /// The number of operations of one client in flight at a time.
    pub in_flight: u32,
    /// The number of reads in one `multi_get`, or of updates in one `multi_put`. More than 1 requires only reads or
    /// only updates, and one operation in flight.
    pub batch: u32,
    /// The length of the run; operations are counted over all clients.
    pub amount: Amount,
    /// Whether the bare loop also runs.
    pub with_limit: bool,
    /// The number of keys whose places each client remembers.
    pub locations: usize,
}

/// The reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum YcsbError {
    /// The options contradict each other.
    #[error("{0}")]
    Options(&'static str),
    /// A client could not connect.
    #[error(transparent)]
    Connect(#[from] stonecast::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A loop failed.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The bare loop cannot run.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The kernel did not tell the server's CPU time.
    #[error("reading the CPU time of process {pid}: {source}")]
    CpuTime {
        /// The process.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },
    /// Another client thread failed first.
    #[error("another client failed")]
    Companion,
}

impl YcsbError {
    /// The distance of this error from the cause. A server that lacks a resource refuses some clients with a reason,
    /// and loses others.
    fn distance(&self) -> u8 {
        match self {
            Self::Companion => 2,
            Self::Connect(error) if error.is_disconnected() => 1,
            Self::Store(StoreError::Disconnected { .. })
            | Self::Drive(DriveError::Store(StoreError::Disconnected { .. })) => 1,
            _ => 0,
        }
    }
}

/// The most operations that are drawn beforehand; a longer run repeats them.
const SEQUENCE_MAX: u64 = 1 << 22;
/// The duration of the warm-up, which populates mappings, takes leases, fills caches, and finds the speed.
const WARM_UP: Duration = Duration::from_millis(300);
/// The most operations of a warm-up before a run that counts operations.
const WARM_UP_OPERATIONS: u64 = 200_000;
/// The longest bare loop, whose speed does not vary.
const LIMIT_MAX: Duration = Duration::from_secs(2);
/// The interval between two calls of the watcher.
const WATCH_EVERY: Duration = Duration::from_millis(100);

impl YcsbOptions {
    /// Refuses options that contradict each other.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.clients == 0 || self.in_flight == 0 || self.batch == 0 || self.data.keys == 0 {
            return Err("clients, operations in flight, the batch and the keys are at least 1");
        }
        if self.batch > 1 && (!matches!(self.mix, Mix::C | Mix::UpdateOnly) || self.in_flight > 1) {
            return Err(
                "a batch of more than 1 needs workload c or update-only, and one operation in flight",
            );
        }
        Ok(())
    }
}

/// Measures over shared memory. `watch` is told at intervals which share (0 to 1) of the measured part is over.
pub fn run(
    target: &Target,
    options: &YcsbOptions,
    watch: impl FnMut(f64),
) -> Result<YcsbResult, YcsbError> {
    run_on(&SharedMemory, target, options, watch)
}

/// Measures as [`run`] does, with a device of `devices` for each client.
pub fn run_on(
    devices: &dyn Devices,
    target: &Target,
    options: &YcsbOptions,
    mut watch: impl FnMut(f64),
) -> Result<YcsbResult, YcsbError> {
    options.check().map_err(YcsbError::Options)?;
    let sequence = Arc::new(Sequence::new(SequenceOptions {
        mix: options.mix,
        distribution: options.distribution,
        keys: options.data.keys,
        length: match options.amount {
            Amount::Operations(count) => count.clamp(1, SEQUENCE_MAX) as usize,
            Amount::Time(_) => SEQUENCE_MAX as usize,
        },
        seed: options.data.seed,
    }));
    let cpu = || {
        let of = |pid| process_cpu_ns(pid).map_err(|source| YcsbError::CpuTime { pid, source });
        target.server_pid.map(of).transpose()
    };
    let stage = Stage {
        devices,
        options: *options,
        sequence,
        begun: Arc::default(),
        meet: Barrier::new(options.clients as usize + 1),
        failed: AtomicBool::new(false),
        limit: OnceLock::new(),
        running: AtomicU64::new(options.clients.into()),
    };
    thread::scope(|scope| {
        let stage = &stage;
        let threads: Vec<_> = (0..options.clients)
            .map(|number| scope.spawn(move || stage.perform(&target.address, number)))
            .collect();
        stage.meet.wait();
        let cpu_start = cpu();
        stage.meet.wait();
        let start = Instant::now();
        while stage.running.load(Ordering::Acquire) > 0 {
            thread::sleep(WATCH_EVERY.min(Duration::from_millis(5)));
            watch(stage.share(start));
        }
        stage.meet.wait();
        let cpu_end = cpu();
        stage.meet.wait();
        stage.meet.wait();
        let mut all = Measured::default();
        let mut limits = Some(0.0);
        let mut failure = None;
        for thread in threads {
            match thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            {
                Ok((measured, limit)) => {
                    all.join(&measured);
                    limits = limits.zip(limit).map(|(sum, limit)| sum + limit);
                }
                Err(error) => {
                    let nearer = |found: &YcsbError| error.distance() < found.distance();
                    if failure.as_ref().is_none_or(nearer) {
                        failure = Some(error);
                    }
                }
            }
        }
        match failure {
            Some(error) => Err(error),
            None => {
                let server_cpu_ns = cpu_end?
                    .zip(cpu_start?)
                    .map(|(end, start)| end.saturating_sub(start));
                Ok(result_of(
                    devices.fabric(),
                    options,
                    &all,
                    server_cpu_ns,
                    limits,
                ))
            }
        }
    })
}

fn result_of(
    fabric: &str,
    options: &YcsbOptions,
    all: &Measured,
    server_cpu_ns: Option<u64>,
    limit_ops_per_s: Option<f64>,
) -> YcsbResult {
    YcsbResult {
        workload: options.mix.name().to_owned(),
        fabric: fabric.to_owned(),
        clients: options.clients,
        in_flight: options.in_flight,
        keys: options.data.keys,
        value_size: options.data.value_size as u64,
        ops: all.ops,
        seconds: all.seconds,
        ops_per_s: all.ops_per_s(),
        p50_ns: all.latencies.quantile_ns(0.5),
        p99_ns: all.latencies.quantile_ns(0.99),
        p999_ns: all.latencies.quantile_ns(0.999),
        errors: all.errors,
        server_cpu_ns_per_op: server_cpu_ns.map(|time| {
            if all.ops > 0 {
                time as f64 / all.ops as f64
            } else {
                0.0
            }
        }),
        client_cpu_ns_per_op: all.client_cpu_ns_per_op(),
        limit_ops_per_s,
        location_hits: all.location_hits,
        location_misses: all.location_misses,
    }
}

/// The state that the threads of a run share.
struct Stage<'a> {
    devices: &'a dyn Devices,
    options: YcsbOptions,
    sequence: Arc<Sequence>,
    begun: Arc<AtomicU64>,
    meet: Barrier,
    failed: AtomicBool,
    /// Empty if the bare loop cannot run.
    limit: OnceLock<Limit>,
    /// The number of threads in the measured loop, or before the loop.
    running: AtomicU64,
}

impl Stage<'_> {
    /// The work of one client, from the connection to the bare loop. The client meets the others five times, whatever
    /// fails.
    fn perform(&self, address: &str, number: u32) -> Result<(Measured, Option<f64>), YcsbError> {
        let start =
            self.sequence.operations().len() / self.options.clients as usize * number as usize;
        let ready = self.note(self.get_ready(address, start));
        self.meet.wait();
        self.meet.wait();
        let measured = self.unless_failed(&ready, |(session, plan)| Ok(plan.run(session)?));
        self.running.fetch_sub(1, Ordering::AcqRel);
        self.meet.wait();
        self.meet.wait();
        let prepared = match number {
            0 if self.options.with_limit => {
                self.unless_failed(&ready, |(session, _)| self.prepare_limit(session))
            }
            _ => Ok(()),
        };
        self.meet.wait();
        let limit = self.unless_failed(&ready, |(session, _)| self.measure_limit(session, start));
        let (session, _) = ready?;
        session.close();
        let measured = measured?;
        prepared?;
        Ok((measured, limit?))
    }

    /// Does the next part of a client, unless a client has failed.
    fn unless_failed<R, T>(
        &self,
        ready: &Result<R, YcsbError>,
        part: impl FnOnce(&R) -> Result<T, YcsbError>,
    ) -> Result<T, YcsbError> {
        match ready {
            Ok(ready) if !self.failed.load(Ordering::Acquire) => self.note(part(ready)),
            _ => Err(YcsbError::Companion),
        }
    }

    fn note<T>(&self, result: Result<T, YcsbError>) -> Result<T, YcsbError> {
        result.inspect_err(|_| self.failed.store(true, Ordering::Release))
    }

    fn get_ready(&self, address: &str, start: usize) -> Result<(Session, Loop), YcsbError> {
        let options = &self.options;
        let session = Session::open_another(self.devices, address, options.locations)?;
        let share = |all: u64| all.div_ceil(options.clients.into());
        let warm_up = match options.amount {
            Amount::Operations(all) => Amount::Operations(share(all).min(WARM_UP_OPERATIONS)),
            Amount::Time(time) => Amount::Time(time.min(WARM_UP)),
        };
        let mut plan = Loop {
            sequence: self.sequence.clone(),
            start,
            value_size: options.data.value_size,
            in_flight: options.in_flight,
            batch: options.batch,
            interval: 61,
            amount: warm_up,
            begun: Arc::default(),
        };
        let warm = plan.run(&session)?;
        let calls = (warm.ops / u64::from(options.batch)).max(1);
        plan.interval = timing_interval(warm.seconds * 1e9 / calls as f64, clock_look_ns());
        plan.amount = match options.amount {
            Amount::Operations(all) => Amount::Operations(share(all)),
            time => time,
        };
        plan.begun = self.begun.clone();
        Ok((session, plan))
    }

    /// Looks up the places that the bare loop reads, for all clients. The bare loop is left out if a GET of this data
    /// is not two reads, if the store's memory is not mapped, or if the server has several shards.
    fn prepare_limit(&self, session: &Session) -> Result<(), YcsbError> {
        let Some(store) = session.store_memory(self.first_key())? else {
            return Ok(());
        };
        match Limit::prepare(&store, &self.sequence) {
            Ok(limit) => drop(self.limit.set(limit)),
            Err(LimitError::TooLong) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Runs the bare loop on as many threads at once as there are clients.
    fn measure_limit(&self, session: &Session, start: usize) -> Result<Option<f64>, YcsbError> {
        let Some(limit) = self.limit.get() else {
            return Ok(None);
        };
        let Some(store) = session.store_memory(self.first_key())? else {
            return Ok(None);
        };
        let duration = match self.options.amount {
            Amount::Time(time) => time.min(LIMIT_MAX),
            Amount::Operations(_) => LIMIT_MAX / 4,
        };
        let measured = limit.run(&store, Order::Dependent, start, duration)?;
        match measured.errors {
            0 => Ok(Some(measured.ops_per_s())),
            errors => Err(LimitError::WrongTag { errors }.into()),
        }
    }

    fn first_key(&self) -> &[u8] {
        self.sequence.operations()[0].key()
    }

    fn share(&self, start: Instant) -> f64 {
        let share = match self.options.amount {
            Amount::Time(time) => start.elapsed().as_secs_f64() / time.as_secs_f64(),
            Amount::Operations(all) => self.begun.load(Ordering::Relaxed) as f64 / all as f64,
        };
        share.min(1.0)
    }
}
