//! Runs of the workloads of Erda's paper on one design.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use stonecast_fabric_sim::MachineProfile;
use stonecast_published::ErdaServer;
use stonecast_workload::{Distribution, Mix, Sequence, SequenceOptions, fnv_hash, value_of};

use super::background::{Background, WRITER_WARM_UP};
use super::contest::{Contest, ContestOptions, Costs, Room};
use super::contestant::{ContestError, Contestant, Design};

/// Bytes of a key: `user` and 19 digits.
pub const KEY_SIZE: usize = 23;

/// The operations of each client before its measurement beside a writer, after which its remembered places have reached
/// their steady age.
const WARM_UP_BESIDE_WRITER: u64 = 50_000;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// The design.
    pub design: Design,
    /// The machines.
    pub profile: MachineProfile,
    /// The mix of operations.
    pub mix: Mix,
    /// Bytes of a value.
    pub value_size: usize,
    /// Clients, one operation at a time each.
    pub threads: u32,
    /// Keys stored before the measurement.
    pub keys: u64,
    /// Operations of all clients together.
    pub operations: u64,
    /// The load beside the measured clients.
    pub beside: Beside,
}

/// The load beside the measured clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beside {
    /// The measured clients are alone.
    Nothing,
    /// One more client overwrites keys at a steady pace; the log has room for all its writes.
    Writer,
    /// The log is cleaned all the time. Erda's cleaner begins again whenever it has ended; the KV store cleans dead
    /// records of the same writer, in a pool that is too small for its writes.
    Cleaning,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Mean latency of an operation.
    pub latency_us: f64,
    /// Operations of all clients per second.
    pub operations_per_s: f64,
    /// CPU time of the server for each operation.
    pub server_cpu_ns: f64,
    /// Bytes that the KV store moved meanwhile for each byte written.
    pub moved: f64,
}

/// The name of a key; all names have one length.
pub fn key_name(number: u64) -> Vec<u8> {
    format!("user{:019}", fnv_hash(number)).into_bytes()
}

/// Loads, and measures a workload.
pub fn workload(options: &RunOptions) -> Result<Outcome, ContestError> {
    let room = match options.beside {
        Beside::Cleaning if options.design == Design::Kv => Room::Tight,
        _ => Room::Plenty,
    };
    let contest = Contest::new(ContestOptions {
        design: options.design,
        profile: options.profile,
        keys: options.keys,
        key_size: KEY_SIZE,
        value_size: options.value_size,
        writes: 2 * options.operations + WRITER_WARM_UP,
        room,
    })?;
    let has_writer = options.beside != Beside::Nothing && options.design == Design::Kv;
    let writer = has_writer.then(|| contest.connect()).transpose()?;
    let mut contestants = (0..options.threads)
        .map(|_| contest.connect())
        .collect::<Result<Vec<_>, _>>()?;
    let (keys, value_size) = (options.keys, options.value_size);
    let loader = contestants.split_off(contestants.len() - 1);
    contestants.extend(contest.run(loader, |_, contestant| {
        load(contestant, 0..keys, value_size)
    })?);
    let each = options.operations.div_ceil(options.threads.into());
    let sequence = Arc::new(Sequence::new(SequenceOptions {
        mix: options.mix,
        distribution: Distribution::ScrambledZipfian,
        keys,
        length: (each * u64::from(options.threads)) as usize,
        seed: 1,
    }));
    let writer = writer
        .map(|writer| Background::start(&contest, writer, keys, value_size))
        .transpose()?;
    // Clients take leases and remember places before the measurement: a store that runs for longer
    // than these few operations has done both.
    let warm_up = match options.beside {
        Beside::Writer | Beside::Cleaning if has_writer => WARM_UP_BESIDE_WRITER,
        _ => (each / 10).max(1),
    };
    let contestants = contest.run(contestants, |number, contestant| {
        let number = number as u64;
        load(contestant, number..number + 1, value_size)
    })?;
    let contestants = contest.run(contestants, |_, contestant| look_up_all(contestant, keys))?;
    let part = |number: usize, count: u64| Part {
        sequence: sequence.clone(),
        operations: number as u64 * each..number as u64 * each + count,
        value_size,
        latencies: Rc::default(),
        cleaner: None,
    };
    let contestants = contest.run(contestants, |number, contestant| {
        work(contestant, part(number, warm_up))
    })?;
    contest.rest();
    let cleaner = contest
        .erda()
        .filter(|_| options.beside == Beside::Cleaning)
        .cloned();
    let latencies = Rc::<RefCell<Vec<u64>>>::default();
    let (before, cleaned_before) = (contest.costs(), contest.cleaning());
    contest.run(contestants, |number, contestant| {
        let part = Part {
            latencies: latencies.clone(),
            cleaner: cleaner.clone(),
            ..part(number, each)
        };
        work(contestant, part)
    })?;
    let (after, cleaned_after) = (contest.costs(), contest.cleaning());
    writer.as_ref().map_or(Ok(()), Background::check)?;
    let latencies = latencies.take();
    assert!(!latencies.is_empty(), "the cleaner begins on request");
    let count = (each * u64::from(options.threads)) as f64;
    let moved = cleaned_after.moved_bytes - cleaned_before.moved_bytes;
    let written = cleaned_after.written_bytes - cleaned_before.written_bytes;
    Ok(Outcome {
        latency_us: latencies.iter().sum::<u64>() as f64 / latencies.len() as f64 / 1e3,
        operations_per_s: count * 1e9 / (after.now_ns - before.now_ns) as f64,
        server_cpu_ns: (after.server_cpu_ns - before.server_cpu_ns) as f64 / count,
        moved: moved as f64 / written.max(1) as f64,
    })
}

pub(super) async fn load(
    mut contestant: Contestant,
    numbers: Range<u64>,
    value_size: usize,
) -> Result<Contestant, ContestError> {
    let mut value = vec![0; value_size];
    for number in numbers {
        value_of(1, number, &mut value);
        contestant.put(&key_name(number), &value).await?;
    }
    Ok(contestant)
}

/// Reads each key once.
async fn look_up_all(mut contestant: Contestant, keys: u64) -> Result<Contestant, ContestError> {
    let mut value = Vec::new();
    for number in 0..keys {
        assert!(
            contestant.get(&key_name(number), &mut value).await?,
            "every key is loaded"
        );
    }
    Ok(contestant)
}

/// The part of one client.
pub(super) struct Part {
    pub sequence: Arc<Sequence>,
    pub operations: Range<u64>,
    pub value_size: usize,
    /// The latencies of all operations; with a cleaner, of the operations that began during a cleaning.
    pub latencies: Rc<RefCell<Vec<u64>>>,
    /// The server that must clean all the time.
    pub cleaner: Option<Rc<ErdaServer>>,
}

pub(super) async fn work(
    mut contestant: Contestant,
    part: Part,
) -> Result<Contestant, ContestError> {
    let runtime = contestant.runtime();
    let (mut value, mut found) = (vec![0; part.value_size], Vec::new());
    for index in part.operations {
        let operation =
            &part.sequence.operations()[index as usize % part.sequence.operations().len()];
        let key = key_name(operation.number());
        let counts = part.cleaner.as_ref().is_none_or(|server| {
            let running = server.cleaning().running;
            if !running {
                server.ask_to_clean(0);
            }
            running
        });
        let begin = runtime.now();
        if operation.is_update() {
            value_of(index, operation.number(), &mut value);
            contestant.put(&key, &value).await?;
        } else {
            assert!(
                contestant.get(&key, &mut found).await?,
                "every key is loaded"
            );
        }
        if counts {
            part.latencies.borrow_mut().push(runtime.now() - begin);
        }
    }
    Ok(contestant)
}

/// Bytes stored to persistent memory by a create, an update and a delete.
pub fn bytes_stored(
    design: Design,
    profile: MachineProfile,
    value_size: usize,
) -> Result<[f64; 3], ContestError> {
    const COUNT: u64 = 100;
    let options = ContestOptions {
        design,
        profile,
        keys: 2 * COUNT,
        key_size: KEY_SIZE,
        value_size,
        writes: 10 * COUNT,
        room: Room::Plenty,
    };
    let contest = Contest::new(options)?;
    // The first writes also pay for leases.
    let mut contestants = contest.run(vec![contest.connect()?], |_, contestant| {
        put_all(contestant, COUNT..COUNT + 10, 0, value_size)
    })?;
    contest.rest();
    let mut counts = [contest.costs(); 4];
    for step in 0..3 {
        contestants = contest.run(contestants, |_, mut contestant| async move {
            if step < 2 {
                return put_all(contestant, 0..COUNT, step, value_size).await;
            }
            for number in 0..COUNT {
                contestant.delete(&key_name(number)).await?;
            }
            Ok(contestant)
        })?;
        contest.rest();
        counts[step as usize + 1] = contest.costs();
    }
    let each =
        |from: &Costs, to: &Costs| (to.bytes_stored - from.bytes_stored) as f64 / COUNT as f64;
    Ok(std::array::from_fn(|step| {
        each(&counts[step], &counts[step + 1])
    }))
}

async fn put_all(
    mut contestant: Contestant,
    keys: Range<u64>,
    seed: u64,
    value_size: usize,
) -> Result<Contestant, ContestError> {
    let mut value = vec![0; value_size];
    for number in keys {
        value_of(seed, number, &mut value);
        contestant.put(&key_name(number), &value).await?;
    }
    Ok(contestant)
}
