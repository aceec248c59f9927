//! Figures of the library: the cost of its three kinds of client, beside the store's own client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stonecast::{Connector, Error};
use stonecast_bench::Measured;
use stonecast_bench::kv::Session;
use stonecast_workload::{Distribution, Mix, Sequence};
use tokio::runtime::{Builder, Runtime};

use super::plan::{HANDLE_BLOCKING, HANDLE_LOCAL, HANDLE_TOKIO_64};
use super::{FiguresError, Run, loaded_server, speed};
use crate::peers::{RedisConnection, RedisPersistence, RedisServer};

/// Tasks that each have one GET in flight, and commands of a pipeline.
const TASKS: usize = 64;
/// Parts of a measurement, in turn with those of its yardstick, so that the ratio shows differences
/// of a hundredth.
pub(super) const SLICES: u32 = 16;
/// Operations between two readings of the clock.
const OPERATIONS_PER_LOOK: u64 = 512;
/// Operations of a task between two readings of the clock.
const OPERATIONS_PER_LOOK_OF_A_TASK: u64 = 16;
/// Warm-up before the first measurement.
const WARM_UP: Duration = Duration::from_millis(300);

pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    let all = [&HANDLE_LOCAL, &HANDLE_BLOCKING, &HANDLE_TOKIO_64];
    if !run.wants(&all) {
        return Ok(());
    }
    let options = run.options;
    (run.say)("loading a server for the library");
    let (server, session) = loaded_server(options)?;
    let bench = Bench {
        gets: Gets {
            sequence: Arc::new(run.sequence(Mix::C, Distribution::ScrambledZipfian)),
            value_size: options.data.value_size,
        },
        address: server.address(),
        runtime: Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| FiguresError::System {
                doing: "starting an executor",
                source,
            })?,
    };
    if run.wants(&[&HANDLE_LOCAL, &HANDLE_BLOCKING]) {
        on_one_thread(run, &bench, &session)?;
    }
    session.close();
    if run.wants(&[&HANDLE_TOKIO_64]) {
        between_threads(run, &bench)?;
    }
    Ok(())
}

/// GET one by one: the store's client, the library's handle of the same connection, and a blocking client.
fn on_one_thread(run: &mut Run<'_>, bench: &Bench, session: &Session) -> Result<(), FiguresError> {
    let (raw, handle) = (session.client(), session.handle());
    let blocking = Connector::new(&bench.address)?.connect_blocking()?;
    let of_raw = |slice| {
        session.block_on(bench.gets.one_by_one(slice, async |key, value| {
            raw.get(key, value).await.map_err(Error::of_read)
        }))
    };
    let of_handle = |slice| {
        session.block_on(
            bench
                .gets
                .one_by_one(slice, async |key, value| handle.get_into(key, value).await),
        )
    };
    let of_blocking = |slice| {
        let gets = bench
            .gets
            .one_by_one(slice, async |key, value| blocking.get_into(key, value));
        bench.runtime.block_on(gets)
    };
    of_raw(Slice::WARM_UP)?;
    of_handle(Slice::WARM_UP)?;
    of_blocking(Slice::WARM_UP)?;
    let repetitions = run.options.repetitions;
    for repetition in 1..=repetitions {
        (run.say)(&format!(
            "clients of the library, {repetition} of {repetitions}"
        ));
        let mut sums: [Measured; 3] = Default::default();
        for number in 0..SLICES {
            let slice = bench.gets.slice(number, run.options.duration);
            sums[0].add_after(&of_raw(slice)?);
            sums[1].add_after(&of_handle(slice)?);
            sums[2].add_after(&of_blocking(slice)?);
        }
        let yardstick = speed("GET of the store's client", &sums[0])?;
        run.add(
            &HANDLE_LOCAL,
            speed("GET of the handle", &sums[1])?,
            yardstick,
        );
        run.add(
            &HANDLE_BLOCKING,
            speed("blocking GET", &sums[2])?,
            yardstick,
        );
    }
    blocking.close();
    Ok(())
}

/// GETs of tasks that share a client, beside the pipeline of a connection to redis-server.
fn between_threads(run: &mut Run<'_>, bench: &Bench) -> Result<(), FiguresError> {
    let options = run.options;
    (run.say)("loading redis-server");
    let redis = RedisServer::start(RedisPersistence::None, &options.memory_folder);
    let Some(redis) = run.peer(redis, &[&HANDLE_TOKIO_64])? else {
        return Ok(());
    };
    let mut theirs: RedisConnection = redis.connect()?;
    theirs.load(&options.data)?;
    let client = bench.runtime.block_on(stonecast::connect(&bench.address))?;
    bench.gets_of_tasks(&client, WARM_UP)?;
    theirs.measure(&bench.gets.sequence, &options.data, TASKS, WARM_UP)?;
    for repetition in 1..=options.repetitions {
        (run.say)(&format!(
            "{}, {repetition} of {}",
            HANDLE_TOKIO_64.name, options.repetitions
        ));
        let ours = bench.gets_of_tasks(&client, options.duration)?;
        let theirs =
            theirs.measure(&bench.gets.sequence, &options.data, TASKS, options.duration)?;
        run.add(
            &HANDLE_TOKIO_64,
            speed("GET of tasks", &ours)?,
            speed("GET of redis-server", &theirs)?,
        );
    }
    client.close();
    Ok(())
}

/// A part of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Slice {
    /// Number of the first operation.
    pub from: usize,
    pub duration: Duration,
}

impl Slice {
    /// The warm-up of a client.
    pub const WARM_UP: Self = Self {
        from: 0,
        duration: WARM_UP,
    };
}

/// The GETs that clients are compared by.
pub(super) struct Gets {
    pub sequence: Arc<Sequence>,
    pub value_size: usize,
}

impl Gets {
    /// Part `number` of a measurement that takes `duration`.
    pub fn slice(&self, number: u32, duration: Duration) -> Slice {
        let each = self.sequence.operations().len() / SLICES as usize;
        Slice {
            from: each * number as usize,
            duration: duration / SLICES,
        }
    }

    /// Reads one key after the other with `get`.
    pub async fn one_by_one(
        &self,
        Slice { from, duration }: Slice,
        mut get: impl AsyncFnMut(&[u8], &mut Vec<u8>) -> Result<Option<u64>, Error>,
    ) -> Result<Measured, Error> {
        let mut cursor = self.sequence.cursor(from);
        let mut value = Vec::new();
        let mut measured = Measured::default();
        let start = Instant::now();
        while start.elapsed() < duration {
            for _ in 0..OPERATIONS_PER_LOOK {
                let found = get(cursor.take().key(), &mut value).await?;
                measured.errors += u64::from(found.is_none() || value.len() != self.value_size);
            }
            measured.ops += OPERATIONS_PER_LOOK;
        }
        measured.seconds = start.elapsed().as_secs_f64();
        Ok(measured)
    }
}

/// The data of every measurement.
struct Bench {
    gets: Gets,
    address: String,
    runtime: Runtime,
}

impl Bench {
    /// Runs [`TASKS`] tasks on an executor of one thread, each with one GET in flight.
    fn gets_of_tasks(
        &self,
        client: &stonecast::Client,
        duration: Duration,
    ) -> Result<Measured, FiguresError> {
        let start = Instant::now();
        let each = self.gets.sequence.operations().len() / TASKS;
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (client, sequence) = (client.clone(), self.gets.sequence.clone());
                let (from, value_size) = (task * each, self.gets.value_size);
                self.runtime.spawn(async move {
                    let mut cursor = sequence.cursor(from);
                    let (mut ops, mut errors) = (0, 0);
                    while start.elapsed() < duration {
                        for _ in 0..OPERATIONS_PER_LOOK_OF_A_TASK {
                            let entry = client.get(cursor.take().key()).await?;
                            errors += u64::from(
                                entry.is_none_or(|entry| entry.value.len() != value_size),
                            );
                        }
                        ops += OPERATIONS_PER_LOOK_OF_A_TASK;
                    }
                    Ok::<_, Error>((ops, errors))
                })
            })
            .collect();
        let mut measured = Measured::default();
        for task in tasks {
            let ended = self.runtime.block_on(task);
            let (ops, errors) = ended.expect("no task panics and none is cancelled")?;
            measured.ops += ops;
            measured.errors += errors;
        }
        measured.seconds = start.elapsed().as_secs_f64();
        Ok(measured)
    }
}
