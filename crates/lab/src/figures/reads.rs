//! Figures of reading.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stonecast_kv::limits::LOCATIONS;
use stonecast_workload::{Distribution, Mix, Sequence};

use super::plan::{
    GET_LIMIT, GET_LMDB, GET_LMDB_LATEST, GET_OVERLAPPING, GET_REDIS, GET_SERVER_CPU,
    GET_TWO_CLIENTS, MULTI_GET, SERVER_MEMORY,
};
use super::{FiguresError, Run, loaded_server, server_memory, speed};
use crate::peers::{Lmdb, RedisPersistence, RedisServer, View};
use stonecast_bench::Measured;
use stonecast_bench::cpu_time::process_cpu_ns;
use stonecast_bench::kv::{
    Amount, Limit, Loop, Order, ServerProcess, Session, StoreMemory, Target, YcsbOptions,
};
use stonecast_bench::{clock_look_ns, timing_interval};

/// Keys of one `multi_get`.
const BATCH: u32 = 16;
/// Warm-up before the first measurement.
const WARM_UP: Duration = Duration::from_millis(300);

pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    let all = [
        &GET_LIMIT,
        &GET_OVERLAPPING,
        &MULTI_GET,
        &GET_TWO_CLIENTS,
        &GET_SERVER_CPU,
        &GET_LMDB,
        &GET_LMDB_LATEST,
        &GET_REDIS,
        &SERVER_MEMORY,
    ];
    if !run.wants(&all) {
        return Ok(());
    }
    let options = run.options;
    (run.say)("loading a server for reads");
    let (server, session) = loaded_server(options)?;
    let zipfian = Arc::new(run.sequence(Mix::C, Distribution::ScrambledZipfian));
    let reader = Reader::new(&session, zipfian, options.duration, options.data.value_size)?;

    let against_gets = [
        &GET_LIMIT,
        &GET_OVERLAPPING,
        &GET_SERVER_CPU,
        &GET_LMDB,
        &GET_LMDB_LATEST,
        &GET_REDIS,
    ];
    if run.wants(&against_gets) {
        gets(run, &server, &session, &reader)?;
    }
    if run.wants(&[&MULTI_GET]) {
        multi_gets(run, &session, &reader)?;
    }
    session.close();
    if run.wants(&[&GET_TWO_CLIENTS]) {
        two_clients(run, &server)?;
    }
    if run.wants(&[&SERVER_MEMORY]) {
        let beside = server_memory::beside_the_pool(server.pid(), &server.pool());
        let beside = beside.map_err(|source| FiguresError::System {
            doing: "reading the server's mappings",
            source,
        })?;
        run.add(&SERVER_MEMORY, beside as f64 / f64::from(1 << 20), 0.0);
    }
    Ok(())
}

/// GET of one client, in turn with all its yardsticks.
fn gets(
    run: &mut Run<'_>,
    server: &ServerProcess,
    session: &Session,
    reader: &Reader,
) -> Result<(), FiguresError> {
    let options = run.options;
    let limit = match run.wants(&[&GET_LIMIT, &GET_OVERLAPPING]) {
        true => Some(Limit::prepare(&reader.memory, &reader.plan.sequence)?),
        false => None,
    };
    let beside_lmdb = [&GET_LMDB, &GET_LMDB_LATEST];
    let lmdb = match run.wants(&beside_lmdb) {
        true => {
            (run.say)("loading LMDB");
            run.peer(
                Lmdb::load(options.data, &options.memory_folder),
                &beside_lmdb,
            )?
        }
        false => None,
    };
    let redis = match run.wants(&[&GET_REDIS]) {
        true => {
            (run.say)("loading redis-server");
            run.peer(
                RedisServer::start(RedisPersistence::None, &options.memory_folder),
                &[&GET_REDIS],
            )?
        }
        false => None,
    };
    let mut redis_connection = redis.as_ref().map(RedisServer::connect).transpose()?;
    if let Some(connection) = &mut redis_connection {
        connection.load(&options.data)?;
    }
    let cpu = || {
        let read = process_cpu_ns(server.pid());
        read.map_err(|source| FiguresError::System {
            doing: "reading the server's CPU time",
            source,
        })
    };
    for repetition in 1..=options.repetitions {
        (run.say)(&format!(
            "GET and its yardsticks, {repetition} of {}",
            options.repetitions
        ));
        if let Some(limit) = &limit {
            let bare = |order| {
                let measured = limit.run(&reader.memory, order, 0, options.duration)?;
                speed("bare loop", &measured)
            };
            let dependent = bare(Order::Dependent)?;
            let ours = speed("GET", &reader.plan.run(session)?)?;
            run.add(&GET_LIMIT, ours, dependent);
            run.add(&GET_OVERLAPPING, ours, bare(Order::Overlapping)?);
        }
        if run.wants(&[&GET_SERVER_CPU]) {
            let start = cpu()?;
            let ours = reader.plan.run(session)?;
            let spent = cpu()? - start;
            let start = cpu()?;
            thread::sleep(Duration::from_secs_f64(ours.seconds));
            let idle = cpu()? - start;
            speed("GET", &ours)?;
            run.add(
                &GET_SERVER_CPU,
                spent as f64 / ours.ops as f64,
                idle as f64 / ours.ops as f64,
            );
        }
        if let Some(lmdb) = &lmdb {
            for (definition, view) in beside_lmdb.into_iter().zip([View::Snapshot, View::Latest]) {
                if run.wants(&[definition]) {
                    let ours = speed("GET", &reader.plan.run(session)?)?;
                    let theirs = lmdb.measure_gets(
                        view,
                        &reader.plan.sequence,
                        reader.plan.interval,
                        options.duration,
                    )?;
                    run.add(definition, ours, speed("GET of LMDB", &theirs)?);
                }
            }
        }
        if let Some(connection) = &mut redis_connection {
            let ours = speed("GET", &reader.plan.run(session)?)?;
            let theirs =
                connection.measure(&reader.plan.sequence, &options.data, 1, options.duration)?;
            run.add(&GET_REDIS, ours, speed("GET of redis-server", &theirs)?);
        }
    }
    Ok(())
}

fn multi_gets(run: &mut Run<'_>, session: &Session, reader: &Reader) -> Result<(), FiguresError> {
    let uniform = Arc::new(run.sequence(Mix::C, Distribution::Uniform));
    let one_by_one = Loop {
        sequence: uniform,
        ..reader.plan.clone()
    };
    let batched = Loop {
        batch: BATCH,
        interval: 1,
        ..one_by_one.clone()
    };
    for repetition in 1..=run.options.repetitions {
        (run.say)(&format!(
            "multi_get, {repetition} of {}",
            run.options.repetitions
        ));
        let alone = speed("GET uniform", &one_by_one.run(session)?)?;
        let together = speed("multi_get", &batched.run(session)?)?;
        run.add(&MULTI_GET, together, alone);
    }
    Ok(())
}

fn two_clients(run: &mut Run<'_>, server: &ServerProcess) -> Result<(), FiguresError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        run.cannot(&GET_TWO_CLIENTS, "two clients need two cores");
        return Ok(());
    }
    let target = Target {
        address: server.address(),
        server_pid: Some(server.pid()),
    };
    let options = run.options;
    let speed_of = |clients| {
        let options = YcsbOptions {
            mix: Mix::C,
            distribution: Distribution::ScrambledZipfian,
            data: options.data,
            clients,
            in_flight: 1,
            batch: 1,
            amount: Amount::Time(options.duration),
            with_limit: false,
            locations: LOCATIONS,
        };
        let result = stonecast_bench::kv::run(&target, &options, |_| {})?;
        let measured = Measured {
            ops: result.ops,
            errors: result.errors,
            seconds: result.seconds,
            ..Measured::default()
        };
        speed("GET of client threads", &measured)
    };
    for repetition in 1..=options.repetitions {
        (run.say)(&format!(
            "one client and two, {repetition} of {}",
            options.repetitions
        ));
        let one = speed_of(1)?;
        let two = speed_of(2)?;
        run.add(&GET_TWO_CLIENTS, two, one);
    }
    Ok(())
}

/// A warm client that reads one key after the other.
struct Reader {
    plan: Loop,
    memory: StoreMemory,
}

impl Reader {
    fn new(
        session: &Session,
        sequence: Arc<Sequence>,
        duration: Duration,
        value_size: usize,
    ) -> Result<Self, FiguresError> {
        let mut plan = Loop {
            sequence,
            start: 0,
            value_size,
            in_flight: 1,
            batch: 1,
            interval: 61,
            amount: Amount::Time(WARM_UP),
            begun: Arc::default(),
        };
        let warm = plan.run(session)?;
        plan.interval = timing_interval(1e9 / speed("GET", &warm)?, clock_look_ns());
        plan.amount = Amount::Time(duration);
        let memory = session
            .store_memory(plan.sequence.operations()[0].key())?
            .ok_or(FiguresError::NotMapped)?;
        Ok(Self { plan, memory })
    }
}
