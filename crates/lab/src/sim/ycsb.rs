//! A run of a workload of YCSB in virtual time.
//!
//! ```text
//!   load      the first client, many puts in flight         not measured
//!   warm up   all clients                                   not measured
//!   measure   all clients                                   every operation timed, by the virtual clock
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use stonecast_base::{Nanoseconds, random_from_seed};
use stonecast_fabric::Runtime;
use stonecast_fabric_sim::MachineProfile;
use stonecast_kv::{Client, ClientOptions, StoreError, Values};
use stonecast_media::MediaError;
use stonecast_workload::{KeyName, Sequence, SequenceOptions, ValuePool};

use super::scene::{Scene, SceneClient, SceneOptions};
use stonecast_bench::LatencyHistogram;
use stonecast_bench::YcsbResult;
use stonecast_bench::kv::{Amount, YcsbOptions};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct SimYcsbOptions {
    /// The workload, as for a real run; there is no bare loop.
    pub workload: YcsbOptions,
    /// The profile of all machines.
    pub profile: MachineProfile,
    /// Bytes of the pool's log: room for every write, so that it need not be cleaned meanwhile.
    pub capacity: u64,
}

/// One machine of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The role of the machine.
    pub name: String,
    /// CPU time in the measured part.
    pub cpu_ns: Nanoseconds,
    /// Share of the measured part in which the core worked.
    pub busy: f64,
}

/// The result: the fields of a real run, and the fields that only a simulated world knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimYcsbResult {
    /// The fields of a real run; seconds are virtual.
    #[serde(flatten)]
    pub run: YcsbResult,
    /// Events of the world, loading included.
    pub events: u64,
    /// Bytes that reached the persistent medium in the measured part, in whole lines.
    pub nvm_bytes_written: u64,
    /// Bytes that the medium wrote for these bytes, in whole blocks.
    pub media_bytes_written: u64,
    /// Batches of work requests that a client posted and waited for, for each operation.
    pub round_trips_per_op: f64,
    /// The machines: the server, then each client.
    #[serde(skip)]
    pub nodes: Vec<Node>,
    /// Hash of all events.
    #[serde(skip)]
    pub hash: u64,
}

/// The error of a run without a result.
#[derive(Debug, thiserror::Error)]
pub enum SimYcsbError {
    /// The options contradict each other.
    #[error("{0}")]
    Options(&'static str),
    /// The pool could not be made.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The number of puts in flight while the data is loaded.
const LOAD_IN_FLIGHT: u32 = 128;
/// Maximum number of operations drawn beforehand; a longer run starts again.
const SEQUENCE_MAX: u64 = 1 << 20;
/// Operations of each client before the measurement, to take leases and fill caches.
const WARM_UP_OPERATIONS: u64 = 2000;
/// Bytes of a segment.
const SEGMENT_SIZE: u64 = 4 << 20;

impl SimYcsbResult {
    /// Bytes that the medium wrote for each byte that reached the medium; 0 if no byte did.
    pub fn write_amplification(&self) -> f64 {
        if self.nvm_bytes_written == 0 {
            0.0
        } else {
            self.media_bytes_written as f64 / self.nvm_bytes_written as f64
        }
    }
}

/// Loads, warms up, measures.
pub fn run(options: &SimYcsbOptions) -> Result<SimYcsbResult, SimYcsbError> {
    options.workload.check().map_err(SimYcsbError::Options)?;
    let workload = &options.workload;
    let segments = options
        .capacity
        .div_ceil(SEGMENT_SIZE)
        .max(8 + 4 * u64::from(workload.clients));
    let scene = Scene::new(&SceneOptions {
        profile: options.profile,
        capacity: segments * SEGMENT_SIZE,
        segment_size: SEGMENT_SIZE,
        seed: workload.data.seed,
        publishing: false,
    })?;
    let client_options = ClientOptions {
        locations: workload.locations,
        ..ClientOptions::default()
    };
    let clients = (0..workload.clients)
        .map(|_| scene.connect_with(client_options))
        .collect::<Result<Vec<_>, _>>()?;
    load(&scene, &clients[0], workload)?;
    let sequence = Rc::new(Sequence::new(SequenceOptions {
        mix: workload.mix,
        distribution: workload.distribution,
        keys: workload.data.keys,
        length: match workload.amount {
            Amount::Operations(count) => count.clamp(1, SEQUENCE_MAX) as usize,
            Amount::Time(_) => SEQUENCE_MAX as usize,
        },
        seed: workload.data.seed,
    }));
    let share = |all: u64| all.div_ceil(workload.clients.into());
    let warm_up = match workload.amount {
        Amount::Operations(all) => share(all).min(WARM_UP_OPERATIONS),
        Amount::Time(_) => WARM_UP_OPERATIONS,
    };
    part(
        &scene,
        &clients,
        workload,
        &sequence,
        Amount::Operations(warm_up),
    )?;
    scene.rest();
    let before = Snapshot::take(&scene, &clients);
    let amount = match workload.amount {
        Amount::Operations(all) => Amount::Operations(share(all)),
        time => time,
    };
    let measured = part(&scene, &clients, workload, &sequence, amount)?;
    let after = Snapshot::take(&scene, &clients);
    Ok(result_of(options, &scene, &measured, &before, &after))
}

fn load(scene: &Scene, client: &SceneClient, workload: &YcsbOptions) -> Result<(), StoreError> {
    let data = workload.data;
    let next = Rc::new(Cell::new(0));
    scene.run_tasks(std::slice::from_ref(client), LOAD_IN_FLIGHT, |_, client| {
        let (client, next) = (client.client.clone(), next.clone());
        async move {
            let mut value = vec![0; data.value_size];
            while next.get() < data.keys {
                let number = next.replace(next.get() + 1);
                data.value(number, &mut value);
                client
                    .put(KeyName::of(number).as_bytes(), &value)
                    .await
                    .inspect_err(|_| next.set(data.keys))?;
            }
            Ok(())
        }
    })
}

/// The state that the tasks of one client share.
struct Lane {
    client: Client,
    runtime: Rc<dyn Runtime>,
    sequence: Rc<Sequence>,
    next: Cell<usize>,
    /// Operations that no task has begun.
    left: Cell<u64>,
    /// Time from which no operation begins.
    deadline: Cell<Nanoseconds>,
    batch: u32,
    value_size: usize,
    pool: RefCell<ValuePool>,
    ops: Cell<u64>,
    errors: Cell<u64>,
    latencies: RefCell<LatencyHistogram>,
}

/// Runs `amount` on every client, and adds up the results.
fn part(
    scene: &Scene,
    clients: &[SceneClient],
    workload: &YcsbOptions,
    sequence: &Rc<Sequence>,
    amount: Amount,
) -> Result<Measured, StoreError> {
    let start = scene.world().now();
    let lanes: Vec<Rc<Lane>> = clients
        .iter()
        .enumerate()
        .map(|(number, client)| {
            let first = sequence.operations().len() / clients.len() * number;
            let (left, deadline) = match amount {
                Amount::Operations(count) => (count, Nanoseconds::MAX),
                Amount::Time(time) => (u64::MAX, start + time.as_nanos() as u64),
            };
            Rc::new(Lane {
                client: client.client.clone(),
                runtime: client.runtime(),
                sequence: sequence.clone(),
                next: Cell::new(first),
                left: Cell::new(left),
                deadline: Cell::new(deadline),
                batch: workload.batch,
                value_size: workload.data.value_size,
                pool: RefCell::new(ValuePool::new(
                    workload.data.value_size,
                    &mut random_from_seed(first as u64),
                )),
                ops: Cell::new(0),
                errors: Cell::new(0),
                latencies: RefCell::default(),
            })
        })
        .collect();
    scene.run_tasks(clients, workload.in_flight, |number, _| {
        let lane = lanes[number].clone();
        async move {
            if lane.batch > 1 {
                lane.read_batches().await
            } else {
                lane.work().await
            }
        }
    })?;
    let mut measured = Measured {
        ns: scene.world().now() - start,
        ..Measured::default()
    };
    for lane in &lanes {
        measured.ops += lane.ops.get();
        measured.errors += lane.errors.get();
        measured.latencies.add(&lane.latencies.borrow());
    }
    Ok(measured)
}

impl Lane {
    /// The index of the next operation; `None` at the end.
    fn take(&self) -> Option<usize> {
        if self.left.get() == 0 || self.runtime.now() >= self.deadline.get() {
            return None;
        }
        self.left.set(self.left.get() - 1);
        let index = self.next.get();
        self.next
            .set((index + 1) % self.sequence.operations().len());
        Some(index)
    }

    fn note(&self, began: Nanoseconds, ops: u64, errors: u64) {
        self.latencies
            .borrow_mut()
            .record(Duration::from_nanos(self.runtime.now() - began));
        self.ops.set(self.ops.get() + ops);
        self.errors.set(self.errors.get() + errors);
    }

    async fn work(&self) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        while let Some(index) = self.take() {
            let operation = &self.sequence.operations()[index];
            let began = self.runtime.now();
            let error = if operation.is_update() {
                bytes.clear();
                bytes.extend_from_slice(self.pool.borrow_mut().take());
                match self.client.put(operation.key(), &bytes).await {
                    Ok(_) => false,
                    // A full pool ends the run; the part before it is a measurement.
                    Err(error) if error.is_for_want_of_room() => {
                        self.left.set(0);
                        self.errors.set(self.errors.get() + 1);
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            } else {
                let found = self.client.get(operation.key(), &mut bytes).await?;
                found.is_none() || bytes.len() != self.value_size
            };
            self.note(began, 1, error.into());
        }
        Ok(())
    }

    async fn read_batches(&self) -> Result<(), StoreError> {
        let mut values = Values::default();
        loop {
            let indices: Vec<usize> = (0..self.batch).map_while(|_| self.take()).collect();
            if indices.is_empty() {
                return Ok(());
            }
            let keys: Vec<&[u8]> = indices
                .iter()
                .map(|&index| self.sequence.operations()[index].key())
                .collect();
            let began = self.runtime.now();
            self.client.multi_get(&keys, &mut values).await?;
            let sound = |&index: &usize| {
                values
                    .get(index)
                    .is_some_and(|(value, _)| value.len() == self.value_size)
            };
            let found = (0..keys.len()).filter(sound).count();
            self.note(began, keys.len() as u64, (keys.len() - found) as u64);
        }
    }
}

#[derive(Default)]
struct Measured {
    ns: Nanoseconds,
    ops: u64,
    errors: u64,
    latencies: LatencyHistogram,
}

/// Counters at one moment.
struct Snapshot {
    medium: stonecast_fabric_sim::MediumCounts,
    doorbells: u64,
    locations: (u64, u64),
    busy_ns: Vec<Nanoseconds>,
}

impl Snapshot {
    fn take(scene: &Scene, clients: &[SceneClient]) -> Self {
        let doorbells = clients.iter().map(|client| client.counts().doorbells).sum();
        let busy = clients.iter().map(SceneClient::busy_ns);
        let busy_ns = std::iter::once(scene.server_busy_ns())
            .chain(busy)
            .collect();
        let counts = clients.iter().map(|client| client.client.location_counts());
        let locations = counts.fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1));
        Self {
            medium: scene.medium_counts(),
            doorbells,
            locations,
            busy_ns,
        }
    }
}

fn result_of(
    options: &SimYcsbOptions,
    scene: &Scene,
    measured: &Measured,
    before: &Snapshot,
    after: &Snapshot,
) -> SimYcsbResult {
    let workload = &options.workload;
    let per_op = |amount: u64| {
        if measured.ops > 0 {
            amount as f64 / measured.ops as f64
        } else {
            0.0
        }
    };
    let seconds = measured.ns as f64 / 1e9;
    let nodes: Vec<Node> = after
        .busy_ns
        .iter()
        .zip(&before.busy_ns)
        .enumerate()
        .map(|(number, (after, before))| Node {
            name: if number == 0 {
                "server".to_owned()
            } else {
                format!("client {number}")
            },
            cpu_ns: after - before,
            busy: (after - before) as f64 / measured.ns.max(1) as f64,
        })
        .collect();
    let medium = after.medium - before.medium;
    let run = YcsbResult {
        workload: workload.mix.name().to_owned(),
        fabric: format!("sim:{}", options.profile.name),
        clients: workload.clients,
        in_flight: workload.in_flight,
        keys: workload.data.keys,
        value_size: workload.data.value_size as u64,
        ops: measured.ops,
        seconds,
        ops_per_s: if seconds > 0.0 {
            measured.ops as f64 / seconds
        } else {
            0.0
        },
        p50_ns: measured.latencies.quantile_ns(0.5),
        p99_ns: measured.latencies.quantile_ns(0.99),
        p999_ns: measured.latencies.quantile_ns(0.999),
        errors: measured.errors,
        server_cpu_ns_per_op: Some(per_op(nodes[0].cpu_ns)),
        client_cpu_ns_per_op: per_op(nodes[1..].iter().map(|node| node.cpu_ns).sum()),
        limit_ops_per_s: None,
        location_hits: after.locations.0 - before.locations.0,
        location_misses: after.locations.1 - before.locations.1,
    };
    SimYcsbResult {
        run,
        events: scene.world().events(),
        nvm_bytes_written: medium.bytes_received,
        media_bytes_written: medium.bytes_written,
        round_trips_per_op: per_op(after.doorbells - before.doorbells),
        nodes,
        hash: scene.world().hash(),
    }
}
