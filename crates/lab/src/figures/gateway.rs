//! Figures of the gateway: a Redis client over TCP on the loopback, beside redis-server over the same.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stonecast_workload::{Distribution, Mix, Sequence};

use super::figure::Definition;
use super::plan::{
    RESP_CONNECTIONS, RESP_GET_1, RESP_GET_16, RESP_GET_128, RESP_IDLE_MEMORY, RESP_INCREMENT_50,
    RESP_SET_16, RESP_SET_DURABLE_16,
};
use super::{FiguresError, Run, capacity, speed};
use crate::peers::{PeerError, RedisConnection, RedisPersistence, RedisServer};
use stonecast_bench::Measured;
use stonecast_bench::kv::{ServerOptions, ServerProcess};

/// Upper bound of the records stored each second, for the capacity of the pool.
const SETS_PER_S: u64 = 1_500_000;
/// Connections whose memory is measured, after some that pay for shared memory.
const IDLE_CONNECTIONS: usize = 1000;
const FIRST_CONNECTIONS: usize = 50;
/// The number of connections that pipeline at once, and the commands of each in a round: SETs and GETs, alternately.
const PIPELINING_CONNECTIONS: usize = 2000;
const PIPELINE: usize = 16;
const ROUNDS: u64 = 5;
/// Connections that increment one key.
const INCREMENTING_CONNECTIONS: usize = 50;
/// Commands between two readings of the clock.
const COMMANDS_PER_LOOK: u64 = 500;
/// The buffer size of a read on each of these connections.
const SMALL_READ: usize = 4 << 10;
/// Files that this process needs beside connections.
const OTHER_FILES: u64 = 256;

/// One comparison with redis-server.
struct Comparison {
    definition: &'static Definition,
    mix: Mix,
    pipeline: usize,
}

pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    let comparison = |definition, mix, pipeline| Comparison {
        definition,
        mix,
        pipeline,
    };
    let options = run.options;
    let volatile = [
        comparison(&RESP_GET_1, Mix::C, 1),
        comparison(&RESP_GET_16, Mix::C, 16),
        comparison(&RESP_GET_128, Mix::C, 128),
        comparison(&RESP_SET_16, Mix::UpdateOnly, 16),
    ];
    let server = Server {
        durability: "process",
        folder: options.memory_folder.clone(),
    };
    compare(run, &volatile, &server, RedisPersistence::None)?;
    let durable = [comparison(&RESP_SET_DURABLE_16, Mix::UpdateOnly, 16)];
    let on_disk = Server {
        durability: "power",
        folder: options.disk_folder.clone(),
    };
    compare(run, &durable, &on_disk, RedisPersistence::AppendFsyncAlways)?;
    if run.wants(&[&RESP_INCREMENT_50]) {
        increments(run, &server)?;
    }
    if run.wants(&[&RESP_IDLE_MEMORY]) {
        idle_memory(run, &server)?;
    }
    if run.wants(&[&RESP_CONNECTIONS]) {
        many_connections(run, &server)?;
    }
    Ok(())
}

/// A server of this project.
struct Server {
    durability: &'static str,
    folder: std::path::PathBuf,
}

impl Server {
    fn start(&self, run: &Run<'_>, sets: u64) -> Result<ServerProcess, FiguresError> {
        Ok(ServerProcess::start(ServerOptions {
            program: run.options.program.clone(),
            parent: self.folder.clone(),
            durability: self.durability,
            capacity: capacity(run.options, sets),
            publishing: false,
            resp: true,
            instead: None,
        })?)
    }
}

fn compare(
    run: &mut Run<'_>,
    comparisons: &[Comparison],
    server: &Server,
    persistence: RedisPersistence,
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
        "loading redis-server (durability {})",
        server.durability
    ));
    let Some(redis) = run.peer(RedisServer::start(persistence, &server.folder), &needed_by)? else {
        return Ok(());
    };
    let mut theirs = RedisConnection::open_tcp(redis.address())?;
    theirs.load(&options.data)?;
    (run.say)(&format!(
        "loading a server through its gateway (durability {})",
        server.durability
    ));
    let sets = (options.duration.as_secs_f64() * 1.2 * SETS_PER_S as f64) as u64
        * u64::from(options.repetitions);
    let own = server.start(run, sets)?;
    let mut ours = RedisConnection::open_tcp(resp_address(&own)?)?;
    ours.load(&options.data)?;
    let sequences: Vec<Sequence> = comparisons
        .iter()
        .map(|comparison| run.sequence(comparison.mix, Distribution::ScrambledZipfian))
        .collect();
    for repetition in 1..=options.repetitions {
        for (comparison, sequence) in comparisons.iter().zip(&sequences) {
            (run.say)(&format!(
                "{}, {repetition} of {}",
                comparison.definition.name, options.repetitions
            ));
            let ours = operations(&mut ours, run, sequence, comparison.pipeline)?;
            let theirs = operations(&mut theirs, run, sequence, comparison.pipeline)?;
            run.add(comparison.definition, ours, theirs);
        }
    }
    Ok(())
}

fn resp_address(server: &ServerProcess) -> Result<SocketAddr, FiguresError> {
    server.resp_address().ok_or(FiguresError::NoGateway)
}

fn operations(
    connection: &mut RedisConnection,
    run: &Run<'_>,
    sequence: &Sequence,
    pipeline: usize,
) -> Result<f64, FiguresError> {
    let options = run.options;
    connection.measure(sequence, &options.data, pipeline, options.duration / 5)?;
    let measured: Measured =
        connection.measure(sequence, &options.data, pipeline, options.duration)?;
    speed("commands over TCP", &measured)
}

/// Measures INCR of one key by many connections, beside SET of one key by the same connections.
fn increments(run: &mut Run<'_>, server: &Server) -> Result<(), FiguresError> {
    let duration = run.options.duration;
    let sets = (duration.as_secs_f64() * 2.4 * SETS_PER_S as f64) as u64
        * u64::from(run.options.repetitions);
    let own = server.start(run, sets)?;
    let address = resp_address(&own)?;
    let open = |_| RedisConnection::open_small(address, SMALL_READ);
    let mut connections: Vec<RedisConnection> = (0..INCREMENTING_CONNECTIONS)
        .map(open)
        .collect::<Result<_, _>>()?;
    for repetition in 1..=run.options.repetitions {
        (run.say)(&format!(
            "{}, {repetition} of {}",
            RESP_INCREMENT_50.name, run.options.repetitions
        ));
        let mut speed = |command: &[&[u8]]| {
            one_key(&mut connections, command, duration / 5)?;
            one_key(&mut connections, command, duration)
        };
        let sets = speed(&[b"SET", b"word", b"1234567890"])?;
        let increments = speed(&[b"INCR", b"number"])?;
        run.add(&RESP_INCREMENT_50, increments, sets);
    }
    Ok(())
}

/// Returns the commands per second, with each connection sending its next command as soon as the previous one is
/// answered.
fn one_key(
    connections: &mut [RedisConnection],
    command: &[&[u8]],
    duration: Duration,
) -> Result<f64, FiguresError> {
    let start = Instant::now();
    let mut done = 0u64;
    connections
        .iter_mut()
        .try_for_each(|connection| connection.ask(command))?;
    while !done.is_multiple_of(COMMANDS_PER_LOOK) || start.elapsed() < duration {
        for connection in connections.iter_mut() {
            connection.take_done()?;
            connection.ask(command)?;
            done += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    connections
        .iter_mut()
        .try_for_each(RedisConnection::take_done)?;
    Ok(done as f64 / seconds)
}

/// Memory of the server for each used and idle connection.
fn idle_memory(run: &mut Run<'_>, server: &Server) -> Result<(), FiguresError> {
    if !allow_files(FIRST_CONNECTIONS + IDLE_CONNECTIONS) {
        run.cannot(&RESP_IDLE_MEMORY, "too few open files allowed");
        return Ok(());
    }
    for _ in 0..run.options.repetitions {
        let own = server.start(run, 0)?;
        let address = resp_address(&own)?;
        let use_once = |count: usize| -> Result<Vec<RedisConnection>, PeerError> {
            let mut connections = Vec::with_capacity(count);
            for number in 0..count {
                let mut connection = RedisConnection::open_small(address, SMALL_READ)?;
                connection.set_and_get(number as u64, 0, PIPELINE)?;
                connection.take_set_and_get(number as u64, 0, PIPELINE)?;
                connections.push(connection);
            }
            Ok(connections)
        };
        // The first connections pay the costs that all connections share.
        let _first = use_once(FIRST_CONNECTIONS)?;
        let before = private_memory(own.pid()).map_err(system("reading /proc"))?;
        let _all = use_once(IDLE_CONNECTIONS)?;
        let after = private_memory(own.pid()).map_err(system("reading /proc"))?;
        let each = after.saturating_sub(before) as f64 / IDLE_CONNECTIONS as f64;
        run.add(&RESP_IDLE_MEMORY, each / 1024.0, f64::NAN);
    }
    Ok(())
}

/// Errors of many connections that pipeline at once.
fn many_connections(run: &mut Run<'_>, server: &Server) -> Result<(), FiguresError> {
    if !allow_files(PIPELINING_CONNECTIONS) {
        run.cannot(&RESP_CONNECTIONS, "too few open files allowed");
        return Ok(());
    }
    for repetition in 1..=run.options.repetitions {
        (run.say)(&format!(
            "{}, {repetition} of {}",
            RESP_CONNECTIONS.name, run.options.repetitions
        ));
        let own = server.start(
            run,
            PIPELINING_CONNECTIONS as u64 * PIPELINE as u64 * ROUNDS,
        )?;
        let address = resp_address(&own)?;
        let open = |_| RedisConnection::open_small(address, SMALL_READ);
        let mut connections: Vec<RedisConnection> = (0..PIPELINING_CONNECTIONS)
            .map(open)
            .collect::<Result<_, _>>()?;
        let mut errors = 0;
        for round in 0..ROUNDS {
            for (number, connection) in (0..).zip(&mut connections) {
                connection.set_and_get(number, round, PIPELINE)?;
            }
            for (number, connection) in (0..).zip(&mut connections) {
                errors += connection.take_set_and_get(number, round, PIPELINE)?;
            }
        }
        run.add(&RESP_CONNECTIONS, errors as f64, f64::NAN);
    }
    Ok(())
}

/// Raises the limit of this process for that number of connections. Returns false if the system refuses.
fn allow_files(connections: usize) -> bool {
    let wanted = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.current.is_none_or(|current| current >= wanted);
    enough
        || setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum: limit.maximum,
            },
        )
        .is_ok()
}

/// Resident private bytes of a process that belong to no file.
fn private_memory(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let lines: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let kilobytes = lines
        .get("RssAnon")
        .and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes << 10)
        .ok_or_else(|| io::Error::other("RssAnon is missing"))
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> FiguresError {
    move |source| FiguresError::System { doing, source }
}
