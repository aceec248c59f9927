//! Figures of the KV store on three nodes, all processes on this machine: writes beside those of etcd and redis-server
//! with as many copies, reads beside those of a server alone.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use stonecast::Error;
use stonecast::local::Connection;
use stonecast_base::random_from_seed;
use stonecast_bench::crowd::Crowd;
use stonecast_bench::{DataSet, LatencyHistogram, Measured};
use stonecast_workload::{Distribution, KeyName, Mix, Sequence, ValuePool};

use super::figure::Definition;
use super::node_processes::NodeProcesses;
use super::plan::{
    NODES_GET, NODES_GET_SERVER_CPU, NODES_IDLE, NODES_PUT_DURABLE_ETCD, NODES_PUT_ETCD,
    NODES_PUT_REDIS,
};
use super::{FiguresError, Run, capacity, handles, loaded_server, speed};
use crate::peers::{Etcd, RedisPersistence, RedisServer};

/// Copies of a write beside the first one.
const REPLICAS: u8 = 2;
const MEMBERS: usize = 3;
/// Puts in flight while keys are loaded.
const LOADING: u32 = 128;
/// Upper bound of the puts per second, for the capacity of the pools. A full pool would be cleaned.
const PUTS_PER_S: u64 = 300_000;
/// Warm-up before a measurement.
const WARM_UP: Duration = Duration::from_millis(200);

pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    let options = run.options;
    if run.wants(&[
        &NODES_PUT_ETCD,
        &NODES_PUT_REDIS,
        &NODES_GET,
        &NODES_GET_SERVER_CPU,
        &NODES_IDLE,
    ]) {
        in_memory(run)?;
    }
    if run.wants(&[&NODES_PUT_DURABLE_ETCD]) {
        let nodes = Writers::start(run, "power", &options.disk_folder)?;
        let etcd = Etcd::start(MEMBERS, &options.disk_folder);
        if let Some(etcd) = run.peer(etcd, &[&NODES_PUT_DURABLE_ETCD])? {
            beside_etcd(run, &nodes, &etcd, &NODES_PUT_DURABLE_ETCD, 128)?;
        }
    }
    Ok(())
}

/// Nodes with the keys of the run, and a client.
struct Writers {
    connection: Connection,
    sequence: Rc<Sequence>,
    nodes: NodeProcesses,
}

impl Writers {
    fn start(
        run: &mut Run<'_>,
        durability: &'static str,
        folder: &Path,
    ) -> Result<Self, FiguresError> {
        let options = run.options;
        (run.say)(&format!("loading three nodes (durability {durability})"));
        let seconds = (options.duration + WARM_UP).as_secs_f64() * f64::from(options.repetitions);
        // A write is an entry of a primary, or two records of a copy.
        let puts = (seconds * 2.0 * PUTS_PER_S as f64) as u64;
        let size = capacity(options, 2 * puts + options.data.keys);
        let nodes = NodeProcesses::start(options, durability, folder, size)?;
        let connection = nodes.connect()?;
        load(&connection, options.data)?;
        let sequence = run.sequence(Mix::UpdateOnly, Distribution::ScrambledZipfian);
        Ok(Self {
            connection,
            sequence: Rc::new(sequence),
            nodes,
        })
    }

    /// Puts per second.
    fn puts(&self, run: &Run<'_>, in_flight: u32) -> Result<f64, FiguresError> {
        let value_size = run.options.data.value_size;
        let puts = |duration| {
            let values = ValuePool::new(value_size, &mut random_from_seed(run.options.data.seed));
            puts(
                &self.connection,
                &self.sequence,
                values,
                in_flight,
                duration,
            )
        };
        puts(WARM_UP)?;
        speed("PUT of nodes", &puts(run.options.duration)?)
    }
}

fn in_memory(run: &mut Run<'_>) -> Result<(), FiguresError> {
    let options = run.options;
    let writers = Writers::start(run, "process", &options.memory_folder)?;
    if run.wants(&[&NODES_IDLE]) {
        idle(run, &writers.nodes)?;
    }
    if run.wants(&[&NODES_GET, &NODES_GET_SERVER_CPU]) {
        gets(run, &writers)?;
    }
    // The peers start one after the other, so that none takes time from the other's measurement.
    if run.wants(&[&NODES_PUT_REDIS]) {
        let redis = RedisPersistence::None;
        let redis = RedisServer::start_replicated(redis, REPLICAS, &options.memory_folder);
        if let Some(redis) = run.peer(redis, &[&NODES_PUT_REDIS])? {
            beside_redis(run, &writers, &redis)?;
        }
    }
    if run.wants(&[&NODES_PUT_ETCD]) {
        let etcd = Etcd::start(MEMBERS, &options.memory_folder);
        if let Some(etcd) = run.peer(etcd, &[&NODES_PUT_ETCD])? {
            beside_etcd(run, &writers, &etcd, &NODES_PUT_ETCD, 16)?;
        }
    }
    writers.connection.close();
    Ok(())
}

/// The CPU time of nodes whose client makes no call.
fn idle(run: &mut Run<'_>, nodes: &NodeProcesses) -> Result<(), FiguresError> {
    for repetition in 1..=run.options.repetitions {
        say(run, &NODES_IDLE, repetition);
        let (before, start) = (nodes.cpu_ns()?, Instant::now());
        thread::sleep(run.options.duration);
        let spent = nodes.cpu_ns()?.into_iter().zip(before);
        let spent = spent.map(|(now, then)| now - then).max();
        let of_a_core = spent.unwrap_or(0) as f64 / start.elapsed().as_nanos() as f64;
        run.add(&NODES_IDLE, 100.0 * of_a_core, f64::NAN);
    }
    Ok(())
}

/// GETs of nodes and of a server alone, in slices in turn.
fn gets(run: &mut Run<'_>, writers: &Writers) -> Result<(), FiguresError> {
    let options = run.options;
    (run.say)("loading a server alone");
    let (_server, session) = loaded_server(options)?;
    let plan = handles::Gets {
        sequence: Arc::new(run.sequence(Mix::C, Distribution::ScrambledZipfian)),
        value_size: options.data.value_size,
    };
    let (alone, nodes) = (session.handle(), writers.connection.client());
    let of_alone = |slice| {
        session.block_on(plan.one_by_one(slice, async |key, into| alone.get_into(key, into).await))
    };
    let of_nodes = |slice| {
        let gets = plan.one_by_one(slice, async |key, into| nodes.get_into(key, into).await);
        writers.connection.run(async |_| gets.await)
    };
    of_alone(handles::Slice::WARM_UP)?;
    of_nodes(handles::Slice::WARM_UP)?;
    for repetition in 1..=options.repetitions {
        say(run, &NODES_GET, repetition);
        let mut sums: [Measured; 2] = Default::default();
        for number in 0..handles::SLICES {
            let slice = plan.slice(number, options.duration);
            sums[0].add_after(&of_nodes(slice)?);
            sums[1].add_after(&of_alone(slice)?);
        }
        let [ours, yardstick] = sums;
        let ours = speed("GET of nodes", &ours)?;
        run.add(&NODES_GET, ours, speed("GET", &yardstick)?);
        if run.wants(&[&NODES_GET_SERVER_CPU]) {
            let all = || Ok::<u64, FiguresError>(writers.nodes.cpu_ns()?.into_iter().sum());
            let start = all()?;
            let whole = handles::Slice {
                from: 0,
                duration: options.duration,
            };
            let measured = of_nodes(whole)?;
            let middle = all()?;
            thread::sleep(Duration::from_secs_f64(measured.seconds));
            let idle = all()? - middle;
            let each = |spent: u64| spent as f64 / measured.ops as f64;
            run.add(&NODES_GET_SERVER_CPU, each(middle - start), each(idle));
        }
    }
    session.close();
    Ok(())
}

fn beside_etcd(
    run: &mut Run<'_>,
    writers: &Writers,
    etcd: &Etcd,
    definition: &'static Definition,
    in_flight: u32,
) -> Result<(), FiguresError> {
    let options = run.options;
    let connection = etcd.connect()?;
    for repetition in 1..=options.repetitions {
        say(run, definition, repetition);
        let ours = writers.puts(run, in_flight)?;
        let theirs = |duration| {
            let in_flight = in_flight as usize;
            connection.measure(&writers.sequence, &options.data, in_flight, duration)
        };
        theirs(WARM_UP)?;
        let theirs = theirs(options.duration)?;
        run.add(definition, ours, speed("put of etcd", &theirs)?);
    }
    Ok(())
}

fn beside_redis(
    run: &mut Run<'_>,
    writers: &Writers,
    redis: &RedisServer,
) -> Result<(), FiguresError> {
    let options = run.options;
    let mut connection = redis.connect()?;
    connection.load(&options.data)?;
    connection.await_replicas(REPLICAS);
    for repetition in 1..=options.repetitions {
        say(run, &NODES_PUT_REDIS, repetition);
        let ours = writers.puts(run, 16)?;
        let mut theirs =
            |duration| connection.measure(&writers.sequence, &options.data, 16, duration);
        theirs(WARM_UP)?;
        let theirs = theirs(options.duration)?;
        run.add(
            &NODES_PUT_REDIS,
            ours,
            speed("SET of redis-server", &theirs)?,
        );
    }
    Ok(())
}

fn say(run: &mut Run<'_>, definition: &Definition, repetition: u32) {
    let (name, all) = (definition.name, run.options.repetitions);
    (run.say)(&format!("{name}, {repetition} of {all}"));
}

/// Stores all records of `data`.
fn load(connection: &Connection, data: DataSet) -> Result<(), FiguresError> {
    let next = Rc::new(Cell::new(0));
    let (all, keys) = (Crowd::new(), data.keys);
    for _ in 0..LOADING {
        let (client, next) = (connection.client().clone(), next.clone());
        let task = async move {
            let mut value = vec![0; data.value_size];
            while next.get() < keys {
                let number = next.replace(next.get() + 1);
                data.value(number, &mut value);
                let put = client.put(KeyName::of(number).as_bytes(), &value).await;
                // No other task goes on after a failure.
                put.inspect_err(|_| next.set(keys))?;
            }
            Ok::<_, Error>(())
        };
        all.spawn(&**connection.client().runtime(), task);
    }
    let ends = connection.run(async |_| all.ends().await);
    Ok(ends.into_iter().collect::<Result<(), _>>()?)
}

/// Puts keys of `sequence` for `duration`, `in_flight` at a time, each timed.
fn puts(
    connection: &Connection,
    sequence: &Rc<Sequence>,
    values: ValuePool,
    in_flight: u32,
    duration: Duration,
) -> Result<Measured, FiguresError> {
    let start = Instant::now();
    let shared = Rc::new((
        Cell::new(0),
        RefCell::new(values),
        RefCell::new(LatencyHistogram::default()),
    ));
    let all = Crowd::new();
    for _ in 0..in_flight {
        let (client, sequence) = (connection.client().clone(), sequence.clone());
        let shared = shared.clone();
        let task = async move {
            let (next, values, latencies) = &*shared;
            let (mut value, mut now) = (Vec::new(), Instant::now());
            while now.duration_since(start) < duration {
                let operations = sequence.operations();
                let index: usize = next.replace(next.get() + 1);
                value.clear();
                value.extend_from_slice(values.borrow_mut().take());
                let key = operations[index % operations.len()].key();
                client.put(key, &value).await?;
                let then = std::mem::replace(&mut now, Instant::now());
                latencies.borrow_mut().record(now.duration_since(then));
            }
            Ok::<_, Error>(())
        };
        all.spawn(&**connection.client().runtime(), task);
    }
    let ends = connection.run(async |_| all.ends().await);
    ends.into_iter().collect::<Result<(), _>>()?;
    let latencies = shared.2.take();
    Ok(Measured {
        ops: latencies.count(),
        seconds: start.elapsed().as_secs_f64(),
        latencies,
        ..Measured::default()
    })
}
