//! Figures of writing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stonecast_workload::{Distribution, Mix, Sequence};

use super::figure::Definition;
use super::plan::{PUT_DURABLE_16, PUT_DURABLE_128, PUT_PUBLISHED, PUT_REDIS};
use super::{FiguresError, Run, capacity, speed};
use crate::peers::{RedisConnection, RedisPersistence, RedisServer};
use stonecast_bench::kv::{Amount, Loop, ServerOptions, ServerProcess, Session, load};
use stonecast_bench::timing_interval;

/// Upper bound of durable puts per second on a file, for the capacity of the pool.
const DURABLE_PUTS_PER_S: u64 = 2_000_000;
/// Puts before the first measurement.
const WARM_UP_PUTS: u64 = 20_000;

/// One comparison with redis-server.
struct Comparison {
    definition: &'static Definition,
    in_flight: u32,
    /// Number of puts in one call, of those in flight.
    batch: u32,
}

pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    let options = run.options;
    let repetitions = u64::from(options.repetitions);
    let process = [Comparison {
        definition: &PUT_REDIS,
        in_flight: 16,
        batch: 1,
    }];
    let setup = Setup {
        durability: "process",
        publishing: false,
        redis: RedisPersistence::None,
        folder: &options.memory_folder,
        amount: Amount::Operations(options.puts),
        puts: options.puts * repetitions,
    };
    compare(run, &process, &setup)?;
    let published = [Comparison {
        definition: &PUT_PUBLISHED,
        in_flight: 16,
        batch: 16,
    }];
    compare(
        run,
        &published,
        &Setup {
            publishing: true,
            ..setup
        },
    )?;
    let durable = [
        Comparison {
            definition: &PUT_DURABLE_16,
            in_flight: 16,
            batch: 1,
        },
        Comparison {
            definition: &PUT_DURABLE_128,
            in_flight: 128,
            batch: 1,
        },
    ];
    let setup = Setup {
        durability: "power",
        publishing: false,
        redis: RedisPersistence::AppendFsyncAlways,
        folder: &options.disk_folder,
        amount: Amount::Time(options.duration),
        puts: (options.duration.as_secs_f64() * DURABLE_PUTS_PER_S as f64) as u64 * repetitions * 2,
    };
    compare(run, &durable, &setup)
}

/// The server and client that a group of comparisons shares.
struct Setup<'a> {
    durability: &'static str,
    /// Whether our client publishes its puts.
    publishing: bool,
    redis: RedisPersistence,
    folder: &'a Path,
    /// Amount of one measurement of ours.
    amount: Amount,
    /// Puts of all measurements together, for the capacity.
    puts: u64,
}

fn compare(
    run: &mut Run<'_>,
    comparisons: &[Comparison],
    setup: &Setup<'_>,
) -> Result<(), FiguresError> {
    let comparisons: Vec<_> = comparisons
        .iter()
        .filter(|comparison| run.wants(&[comparison.definition]))
        .collect();
    if comparisons.is_empty() {
        return Ok(());
    }
    let needed_by: Vec<_> = comparisons
        .iter()
        .map(|comparison| comparison.definition)
        .collect();
    let options = run.options;
    (run.say)(&format!(
        "loading redis-server for writes (durability {})",
        setup.durability
    ));
    let Some(redis) = run.peer(RedisServer::start(setup.redis, setup.folder), &needed_by)? else {
        return Ok(());
    };
    let mut connection = redis.connect()?;
    connection.load(&options.data)?;
    (run.say)(&format!(
        "loading a server for writes (durability {})",
        setup.durability
    ));
    let server = ServerProcess::start(ServerOptions {
        program: options.program.clone(),
        parent: setup.folder.to_owned(),
        durability: setup.durability,
        capacity: capacity(
            options,
            setup.puts + WARM_UP_PUTS * comparisons.len() as u64,
        ),
        publishing: setup.publishing,
        resp: false,
        instead: None,
    })?;
    let session = Session::open(&server.address())?;
    load(&session, options.data, |_| {})?;
    let sequence = Arc::new(run.sequence(Mix::UpdateOnly, Distribution::ScrambledZipfian));
    for repetition in 1..=options.repetitions {
        for comparison in &comparisons {
            let &&Comparison {
                definition,
                in_flight,
                batch,
            } = comparison;
            (run.say)(&format!(
                "{}, {repetition} of {}",
                definition.name, options.repetitions
            ));
            let ours = puts(
                &session,
                &sequence,
                (in_flight, batch),
                setup.amount,
                options.data.value_size,
            )?;
            let theirs = sets(&mut connection, run, &sequence, in_flight)?;
            run.add(definition, ours, theirs);
        }
    }
    session.close();
    Ok(())
}

/// Puts per second with `in_flight` puts in flight, `batch` of them in one call.
pub(super) fn puts(
    session: &Session,
    sequence: &Arc<Sequence>,
    (in_flight, batch): (u32, u32),
    amount: Amount,
    value_size: usize,
) -> Result<f64, FiguresError> {
    let warm_up = Loop {
        sequence: sequence.clone(),
        start: 0,
        value_size,
        // The puts of one call are in flight together.
        in_flight: in_flight / batch,
        batch,
        interval: timing_interval(1000.0, 50.0),
        amount: Amount::Operations(WARM_UP_PUTS),
        begun: Arc::default(),
    };
    speed("PUT", &warm_up.run(session)?)?;
    let measured = Loop { amount, ..warm_up }.run(session)?;
    speed("PUT", &measured)
}

fn sets(
    connection: &mut RedisConnection,
    run: &Run<'_>,
    sequence: &Sequence,
    pipeline: u32,
) -> Result<f64, FiguresError> {
    let options = run.options;
    let warm_up = Duration::from_millis(100).min(options.duration);
    connection.measure(sequence, &options.data, pipeline as usize, warm_up)?;
    let measured =
        connection.measure(sequence, &options.data, pipeline as usize, options.duration)?;
    speed("SET of redis-server", &measured)
}
