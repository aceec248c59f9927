//! The load of the key-value figures: closed loops of clients against one design.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_bench::crowd::Crowd;
use stonecast_fabric::Runtime;
use stonecast_fabric_sim::MachineProfile;
use stonecast_published::clover::CloverOptions;
use stonecast_published::rowan::RowanOptions;
use stonecast_workload::{Chooser, Distribution};

use super::appends::MACHINES;
use super::clover::CloverCluster;
use super::cluster::{Cluster, Contestant, ContestantError, KvClient};
use super::kv::{KvCluster, KvOptions};
use super::sizes::Objects;

/// Bytes of a key, which objects include.
const KEY_SIZE: usize = 8;
/// Keys stored before the measurement.
const KEYS: u64 = 30_000;
/// The time in which clients reach their steady pace, where a load names no other.
pub(super) const WARM_UP_NS: Nanoseconds = 150_000;
/// Operations ahead whose keys a client reads that learns: more than a client does in the whole run.
const LEARNED: u32 = 200;
/// The measured time after that, where a load names no other.
pub(super) const MEASURED_NS: Nanoseconds = 300_000;

/// The measured case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KvLoad {
    /// The store.
    pub store: Store,
    /// The objects.
    pub objects: Objects,
    /// Operations of a hundred that are PUTs; the others are GETs.
    pub put_percent: u32,
    /// Clients, one operation at a time each.
    pub clients: u32,
    /// Threads of the clients' machines that the clients share.
    pub threads: u32,
    /// Operations a second that begin whatever the store does. Otherwise each client begins one when its last one has
    /// ended.
    pub offered: Option<u64>,
    /// The frequencies of keys.
    pub keys: Distribution,
    /// Whether each client reads the keys of its next operations before the measurement. A client of `kv` then knows
    /// their places.
    pub learns: bool,
    /// The time in which clients reach their steady pace.
    pub warm_up_ns: Nanoseconds,
    /// The measured time.
    pub measured_ns: Nanoseconds,
    /// The machines.
    pub machines: Machines,
}

/// The store of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// Rowan-KV or a rival that has its engine.
    Replicated(RowanOptions),
    /// The store like Clover.
    Clover {
        /// The cluster.
        options: CloverOptions,
        /// Whether clients know the head of each key beforehand. Otherwise they ask the metadata server when they need
        /// it.
        is_opened: bool,
    },
    /// `kv`.
    Kv(KvOptions),
}

impl Store {
    /// The parameters of a store that has the engine of Rowan-KV.
    ///
    /// # Panics
    ///
    /// If the store is another one.
    pub(super) fn of_paper(&mut self) -> &mut RowanOptions {
        match self {
            Self::Replicated(options) => options,
            Self::Clover { .. } | Self::Kv(_) => panic!("a store of another engine"),
        }
    }
}

/// Machines of the paper's evaluation, or machines that differ from them in one respect, to find what decides a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machines {
    /// Time of the medium for a byte, in percent.
    pub medium_percent: u64,
    /// Time of a processor for messages and tasks, in percent.
    pub messages_percent: u64,
    /// Time of a processor for lines of its caches and of DRAM, in percent.
    pub lines_percent: u64,
    /// Time of a NIC for a read-modify-write, in picoseconds.
    pub atomic_ps: u64,
}

impl Machines {
    /// The machines of the evaluation.
    pub const PUBLISHED: Self = Self {
        medium_percent: 100,
        messages_percent: 100,
        lines_percent: 100,
        atomic_ps: 0,
    };

    fn profile(self) -> MachineProfile {
        let mut profile = MachineProfile::by_name(MACHINES).expect("the profile is shipped");
        for number in [
            &mut profile.media_read_byte_ps,
            &mut profile.media_write_byte_ps,
        ] {
            *number = *number * self.medium_percent / 100;
        }
        for number in [
            &mut profile.cpu_post_ns,
            &mut profile.cpu_work_request_ns,
            &mut profile.cpu_poll_ns,
            &mut profile.cpu_completion_ns,
            &mut profile.cpu_task_ns,
        ] {
            *number = *number * self.messages_percent / 100;
        }
        // The time of the medium beyond that of DRAM stays: NICs wait for it, too.
        let beyond_ns = profile.media_read_ns - profile.dram_read_ns;
        for number in [
            &mut profile.cpu_hit_ps,
            &mut profile.cpu_stream_ps,
            &mut profile.cpu_write_back_ns,
            &mut profile.dram_read_ns,
        ] {
            *number = *number * self.lines_percent / 100;
        }
        profile.media_read_ns = profile.dram_read_ns + beyond_ns;
        profile.nic_atomic_ps += self.atomic_ps;
        profile
    }
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct KvOutcome {
    /// Operations that ended in the measured time.
    pub operations: u64,
    /// The measured time.
    pub duration_ns: Nanoseconds,
    /// Latencies of PUTs, shortest first.
    pub puts_ns: Arc<[Nanoseconds]>,
    /// Latencies of GETs, shortest first.
    pub gets_ns: Arc<[Nanoseconds]>,
    /// Bytes that the media wrote for each byte that reached them.
    pub write_amplification: f64,
    /// Bytes a second that a medium wrote, in GB.
    pub media_gb_s: f64,
    /// Bytes that all media wrote.
    pub written: u64,
    /// Part of the time that worker threads work.
    pub workers_busy: f64,
    /// Part of the time that a control thread works.
    pub control_busy: f64,
    /// The hash of everything that happened in the world.
    pub hash: u64,
}

impl KvOutcome {
    /// Million operations a second.
    pub fn million_a_second(&self) -> f64 {
        self.operations as f64 * 1000.0 / self.duration_ns as f64
    }

    /// The latency below which `part` of the PUTs ended, in microseconds; 0 if there were none.
    pub fn put_us(&self, part: f64) -> f64 {
        at(&self.puts_ns, part)
    }

    /// The mean latency of the PUTs, in microseconds; 0 if there were none.
    pub fn put_mean_us(&self) -> f64 {
        let sum: Nanoseconds = self.puts_ns.iter().sum();
        sum as f64 / self.puts_ns.len().max(1) as f64 / 1000.0
    }

    /// Bytes that all media wrote for each PUT.
    pub fn written_a_put(&self) -> f64 {
        self.written as f64 / self.puts_ns.len().max(1) as f64
    }

    /// The latency below which `part` of the GETs ended, in microseconds; 0 if there were none.
    pub fn get_us(&self, part: f64) -> f64 {
        at(&self.gets_ns, part)
    }
}

fn at(latencies: &[Nanoseconds], part: f64) -> f64 {
    let index = (latencies.len() as f64 * part) as usize;
    let found = latencies.get(index.min(latencies.len().saturating_sub(1)));
    found.map_or(0.0, |&latency| latency as f64 / 1000.0)
}

/// The state that the clients of a run share.
struct Shared {
    chooser: Chooser,
    objects: Objects,
    put_percent: u32,
    puts: RefCell<Vec<Nanoseconds>>,
    gets: RefCell<Vec<Nanoseconds>>,
}

/// Stores all keys, and lets clients work for a while.
pub fn measure(load: &KvLoad) -> Result<KvOutcome, ContestantError> {
    let profile = load.machines.profile();
    match &load.store {
        Store::Replicated(options) => run(&Cluster::new(profile, options, load.threads)?, load),
        Store::Clover { options, is_opened } => run(
            &CloverCluster::new(profile, options, (*is_opened, load.threads))?,
            load,
        ),
        Store::Kv(options) => run(&KvCluster::new(profile, *options, load.threads)?, load),
    }
}

fn run<C: Contestant>(cluster: &C, load: &KvLoad) -> Result<KvOutcome, ContestantError> {
    store_all(cluster, load.objects)?;
    let shared = Rc::new(Shared {
        chooser: Chooser::new(load.keys, KEYS),
        objects: load.objects,
        put_percent: load.put_percent,
        puts: RefCell::default(),
        gets: RefCell::default(),
    });
    let threads = cluster.clients();
    if load.learns {
        learn(cluster, &shared, load.clients)?;
    }
    for client in 0..load.clients {
        let (process, connected) = &threads[client as usize % threads.len()];
        let runtime = process.runtime();
        let worker = Rc::new(Worker {
            client: connected.clone(),
            runtime: runtime.clone(),
            shared: shared.clone(),
        });
        let random = random_from_seed(client.into());
        match load.offered {
            None => runtime.spawn(Box::pin(worker.work(random))),
            Some(rate) => {
                let pause_ns = f64::from(load.clients) * 1e9 / rate as f64;
                runtime.spawn(Box::pin(worker.offer(random, pause_ns)));
            }
        }
    }
    cluster.pass(load.warm_up_ns);
    let before = cluster.counters();
    shared.puts.borrow_mut().clear();
    shared.gets.borrow_mut().clear();
    cluster.pass(load.measured_ns);
    let after = cluster.counters();
    let sorted = |latencies: &RefCell<Vec<Nanoseconds>>| {
        let mut latencies = latencies.take();
        latencies.sort_unstable();
        Arc::<[Nanoseconds]>::from(latencies)
    };
    let (puts_ns, gets_ns) = (sorted(&shared.puts), sorted(&shared.gets));
    let duration_ns = after.now_ns - before.now_ns;
    let servers = f64::from(after.servers);
    let part = |used_ns: Nanoseconds, threads: u32| {
        used_ns as f64 / (duration_ns as f64 * servers * f64::from(threads.max(1)))
    };
    let bytes_written = after.medium.written - before.medium.written;
    let written = bytes_written as f64;
    let received = (after.medium.received - before.medium.received) as f64;
    Ok(KvOutcome {
        operations: (puts_ns.len() + gets_ns.len()) as u64,
        duration_ns,
        puts_ns,
        gets_ns,
        write_amplification: written / received.max(1.0),
        media_gb_s: written / duration_ns as f64 / servers,
        written: bytes_written,
        workers_busy: part(after.workers_ns - before.workers_ns, after.workers),
        control_busy: part(after.control_ns - before.control_ns, 1),
        hash: cluster.world().hash(),
    })
}

/// Stores each key once.
fn store_all<C: Contestant>(cluster: &C, objects: Objects) -> Result<(), ContestantError> {
    const LOADERS: u64 = 4;
    let crowd = Crowd::new();
    let threads = cluster.clients();
    let tasks = threads.len() as u64 * LOADERS;
    for task in 0..tasks {
        let (process, client) = &threads[task as usize % threads.len()];
        let client = client.clone();
        let mut random = random_from_seed(task);
        crowd.spawn(&*process.runtime(), async move {
            for key in (task..KEYS).step_by(tasks as usize) {
                client.put(key, &value(objects, &mut random)).await?;
            }
            Ok(())
        });
    }
    let ends: Vec<Result<(), ContestantError>> = cluster.world().block_on(crowd.ends());
    ends.into_iter().collect::<Result<(), _>>()?;
    cluster.prepare(KEYS)
}

/// Has each client read the keys of the GETs that it does next.
fn learn<C: Contestant>(
    cluster: &C,
    shared: &Rc<Shared>,
    clients: u32,
) -> Result<(), ContestantError> {
    let crowd = Crowd::new();
    let threads = cluster.clients();
    for number in 0..clients {
        let (process, client) = &threads[number as usize % threads.len()];
        let (client, shared) = (client.clone(), shared.clone());
        let mut random = random_from_seed(number.into());
        crowd.spawn(&*process.runtime(), async move {
            let mut found = Vec::new();
            for _ in 0..LEARNED {
                match shared.draw(&mut random) {
                    Drawn::Put(..) => {}
                    Drawn::Get(key) => _ = client.get(key, &mut found).await?,
                }
            }
            Ok(())
        });
    }
    let ends: Vec<Result<(), ContestantError>> = cluster.world().block_on(crowd.ends());
    ends.into_iter().collect()
}

fn value(objects: Objects, random: &mut Random) -> Vec<u8> {
    let size = objects.draw(random) - KEY_SIZE;
    vec![random.random(); size]
}

/// The next operation of a client.
enum Drawn {
    Put(u64, Vec<u8>),
    Get(u64),
}

impl Shared {
    fn draw(&self, random: &mut Random) -> Drawn {
        let key = self.chooser.next(random);
        match random.random_range(0..100) < self.put_percent {
            true => Drawn::Put(key, value(self.objects, random)),
            false => Drawn::Get(key),
        }
    }
}

/// A client of a run.
struct Worker<C> {
    client: Rc<C>,
    runtime: Rc<dyn Runtime>,
    shared: Rc<Shared>,
}

impl<C: KvClient + 'static> Worker<C> {
    /// One operation after the other, forever.
    async fn work(self: Rc<Self>, mut random: Random) {
        loop {
            let drawn = self.shared.draw(&mut random);
            self.call(drawn, self.runtime.now()).await;
        }
    }

    /// Operations that begin at times that are independent of their ends, with pauses of `pause_ns` on average.
    async fn offer(self: Rc<Self>, mut random: Random, pause_ns: f64) {
        let start = self.runtime.now();
        let mut passed_ns = 0.0;
        loop {
            // The pauses of independent events are exponential.
            passed_ns -= pause_ns * (1.0 - random.random::<f64>()).ln();
            let begin = start + passed_ns as Nanoseconds;
            self.runtime
                .sleep(begin.saturating_sub(self.runtime.now()))
                .await;
            let (worker, drawn) = (self.clone(), self.shared.draw(&mut random));
            self.runtime
                .spawn(Box::pin(async move { worker.call(drawn, begin).await }));
        }
    }

    /// One operation, whose latency counts from `begin`.
    async fn call(&self, drawn: Drawn, begin: Nanoseconds) {
        match drawn {
            Drawn::Put(key, value) => {
                let done = self.client.put(key, &value).await;
                done.expect("nothing disturbs the servers");
                let puts = &self.shared.puts;
                puts.borrow_mut().push(self.runtime.now() - begin);
            }
            Drawn::Get(key) => {
                let is_there = self.client.get(key, &mut Vec::new()).await;
                assert!(
                    is_there.expect("nothing disturbs the servers"),
                    "every key is loaded"
                );
                let gets = &self.shared.gets;
                gets.borrow_mut().push(self.runtime.now() - begin);
            }
        }
    }
}
