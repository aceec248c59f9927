//! Many senders and one machine with persistent memory, in the simulated world.
//!
//! ```text
//!   sender, one thread each   make a record, send it, wait until it is persisted, again     8 machines
//!        | SEND or WRITE, and a READ of one byte behind it, with one doorbell
//!   receiver                  buffers of 4 MiB, or a log for each sender
//! ```
//!
//! The receiver's processor only posts buffers again. In some loads, further cores of it write to the same medium.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, Span, random_from_seed};
use stonecast_fabric::append::{AppendOptions, AppendQueue};
use stonecast_fabric::{
    Access, ConnectionEvent, DeviceError, LocalSpan, MemoryRegion, Operation, Port, QueuePair,
    QueuePairOptions, RemoteAddress, Runtime, Status, give_way,
};
use stonecast_fabric_sim::{
    Features, MachineOptions, MachineProfile, MediumCounts, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, MediaError, PersistenceDomain,
    PersistentRegion, ReceiveBuffers,
};
use stonecast_persist::execute::Commit;

/// The ways in which records reach the receiver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// SENDs into buffers that all senders share. The receiver's NIC places the records one behind the other.
    Append,
    /// WRITEs into a log for each sender. The next sender is drawn, as in a system with several receivers in which a
    /// record's key decides the receiver.
    Write,
    /// WRITEs into a log for each sender, by senders that have this receiver alone and therefore take turns.
    WriteInTurns,
}

/// The measured case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The way of the records.
    pub design: Design,
    /// The number of threads that send. Each thread waits until its record is persisted before it sends the next one.
    pub senders: u32,
    /// Bytes of a record; a multiple of 64.
    pub size: u32,
    /// Cores of the receiver that write records of this size to the same medium, one behind the other, each into a log
    /// of its own.
    pub local: u32,
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The number of records of senders that were persisted in the measured time.
    pub records: u64,
    /// The number of records of the receiver's own cores.
    pub local_records: u64,
    /// The measured time.
    pub duration_ns: Nanoseconds,
    /// The counters of the medium in that time.
    pub medium: MediumCounts,
    /// The hash of everything that happened in the world.
    pub hash: u64,
}

impl Outcome {
    /// Million records a second.
    pub fn million_a_second(&self) -> f64 {
        self.records as f64 * 1000.0 / self.duration_ns as f64
    }

    /// Million records a second of the receiver's own cores.
    pub fn local_million_a_second(&self) -> f64 {
        self.local_records as f64 * 1000.0 / self.duration_ns as f64
    }

    /// The bytes that the medium wrote for each byte that reached the medium.
    pub fn write_amplification(&self) -> f64 {
        self.medium.bytes_written as f64 / self.medium.bytes_received as f64
    }
}

/// Machines of the senders: the clients of the paper's evaluation.
const MACHINES: u32 = 8;
/// Cores of each machine: a Xeon Gold 6240M.
const CORES: usize = 18;
/// Bytes of a receive buffer, and of a sender's log before it begins again: a segment of the paper.
const SEGMENT: u32 = 4 << 20;
/// Receive buffers.
const BUFFERS: u32 = 16;
/// The warm-up, in which the senders connect and the buffers of NIC and medium fill.
const WARM_UP_NS: Nanoseconds = 2_000_000;
/// The measured time after the warm-up.
const MEASURED_NS: Nanoseconds = 4_000_000;
/// The offset of a sender's objects in its memory, behind its record. The objects take far more bytes than a cache
/// holds.
const OBJECTS: u64 = 4096;
const OBJECTS_SIZE: u64 = 1 << 30;
/// The interval at which the receiver looks for buffers that have come back.
const REFILL_NS: Nanoseconds = 20_000;
const SEED: u64 = 1;
const ADDRESS: &str = "sim:receiver";
const PLATFORM: DeclaredPlatform = DeclaredPlatform {
    persistence_domain: PersistenceDomain::Dmp,
    ddio: Ddio::Off,
    receive_buffers: ReceiveBuffers::Pm,
};

/// The receiver: its memory, and the port that accepts senders.
struct Receiver {
    port: Rc<Port>,
    region: MemoryRegion,
    queue: Option<AppendQueue>,
}

/// The ends of the senders' logs.
struct Logs {
    ends: RefCell<Vec<u64>>,
    /// Whether the next sender is drawn.
    drawn: bool,
    random: RefCell<Random>,
    size: u64,
}

/// A thread that sends.
struct Sender {
    number: usize,
    port: Rc<Port>,
    qp: QueuePair,
    /// The sender's record, followed by the bytes that the READ fetches.
    record: LocalSpan,
    fetched: LocalSpan,
    load: Load,
    /// The address at which the logs begin.
    log: RemoteAddress,
}

/// Lets `load` run for a while on machines of `profile`.
pub fn measure(profile: MachineProfile, load: &Load) -> Result<Outcome, MediaError> {
    let world = World::new(SEED);
    let options = MachineOptions {
        platform: PLATFORM,
        features: Features {
            multi_packet: true,
            ..Features::COMMON
        },
        cores: CORES,
        ..MachineOptions::new(profile)
    };
    // Each thread of the receiver has a hardware thread of its own: the published receiver has 36.
    let machine = world.machine(MachineOptions {
        cores: CORES + load.local as usize,
        ..options
    });
    let remote = u64::from(SEGMENT) * u64::from(BUFFERS.max(load.senders));
    let capacity = remote + u64::from(SEGMENT) * u64::from(load.local);
    let module = world.module(machine, Survivor::default());
    let log = SimBacking::new(&module).open_log(LogOptions {
        capacity,
        platform: PLATFORM,
        durability: Durability::Power,
    })?;
    let process = world.process(machine);
    let (records, local_records) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let started = start(&world, &process, log.clone(), load, &records, options);
    started.expect("the simulated devices have room for everything");
    for number in 0..load.local {
        let writer = LocalWriter {
            log: log.clone(),
            start: remote + u64::from(SEGMENT) * u64::from(number),
            size: load.size.into(),
        };
        let writing = writer.run(local_records.clone());
        process.thread().runtime().spawn(Box::pin(writing));
    }
    let observer = world.observer();
    let rest = |duration| world.block_on(observer.sleep(duration));
    rest(WARM_UP_NS);
    let (before, sent) = (module.counts(), [records.get(), local_records.get()]);
    rest(MEASURED_NS);
    Ok(Outcome {
        records: records.get() - sent[0],
        local_records: local_records.get() - sent[1],
        duration_ns: MEASURED_NS,
        medium: module.counts() - before,
        hash: world.hash(),
    })
}

/// Connects the senders, and lets all of them send forever.
fn start(
    world: &World,
    process: &Process,
    log: Rc<dyn PersistentRegion>,
    load: &Load,
    records: &Rc<Cell<u64>>,
    options: MachineOptions,
) -> Result<(), DeviceError> {
    let receiver = Receiver::open(process, log, load.design)?;
    let machines: Vec<_> = (0..MACHINES).map(|_| world.machine(options)).collect();
    let logs = Rc::new(Logs::new(load));
    let mut senders = Vec::new();
    for number in 0..load.senders {
        let process = world.process(machines[(number % MACHINES) as usize]);
        let sender = receiver.connect(world, &process, number as usize, load)?;
        senders.push((process, sender));
    }
    for (process, sender) in senders {
        let sending = sender.run(logs.clone(), records.clone());
        process.runtime().spawn(Box::pin(sending));
    }
    if receiver.queue.is_some() {
        let runtime = process.runtime();
        runtime.spawn(Box::pin(receiver.refill(process.runtime())));
    }
    Ok(())
}

impl Receiver {
    fn open(
        process: &Process,
        log: Rc<dyn PersistentRegion>,
        design: Design,
    ) -> Result<Self, DeviceError> {
        let port = Rc::new(Port::new(process.open_device(), 64)?);
        let device = port.device().clone();
        device.listen(ADDRESS)?;
        let access = Access::REMOTE_READ.and(Access::REMOTE_WRITE);
        let region = device.register_persistent(log, access)?;
        let mut receiver = Self {
            port,
            region,
            queue: None,
        };
        if design == Design::Append {
            let options = AppendOptions {
                buffers: BUFFERS,
                buffer_size_max: SEGMENT,
                ..AppendOptions::default()
            };
            receiver.queue = Some(AppendQueue::new(device, options)?);
            (0..u64::from(BUFFERS)).try_for_each(|number| receiver.post(number))?;
        }
        Ok(receiver)
    }

    fn post(&mut self, number: u64) -> Result<(), DeviceError> {
        let buffer = LocalSpan {
            region: self.region,
            offset: number * u64::from(SEGMENT),
            size: SEGMENT,
        };
        self.queue().post(number, buffer)
    }

    fn queue(&mut self) -> &mut AppendQueue {
        self.queue.as_mut().expect("only buffers come and go")
    }

    /// Connects a sender that runs in `process`.
    fn connect(
        &self,
        world: &World,
        process: &Process,
        number: usize,
        load: &Load,
    ) -> Result<Sender, DeviceError> {
        let port = process.port(64)?;
        let (device, serving) = (port.device().clone(), self.port.device().clone());
        let qp = device.create_queue_pair(queues(&port, None))?;
        let theirs = serving.create_queue_pair(queues(&self.port, self.queue.as_ref()))?;
        device.connect(qp, ADDRESS, &[])?;
        world.block_on(async {
            loop {
                self.port.pump();
                if let Some(ConnectionEvent::Request { request, .. }) = self.port.take_event() {
                    break serving.accept(request, theirs, &[]);
                }
                world.observer().sleep(1_000).await;
            }
        })?;
        world.block_on(port.activity());
        let local = device.allocate(OBJECTS + OBJECTS_SIZE, Access::NONE)?;
        let span = |offset, size| LocalSpan {
            region: local,
            offset,
            size,
        };
        Ok(Sender {
            number,
            port,
            qp,
            record: span(0, load.size),
            fetched: span(load.size.into(), 1),
            load: *load,
            log: RemoteAddress {
                address: self.region.address,
                rkey: self.region.rkey,
            },
        })
    }

    /// Posts each buffer again when it has come back.
    async fn refill(mut self, runtime: Rc<dyn Runtime>) {
        let mut consumed = Vec::new();
        loop {
            self.queue().take_consumed(&mut consumed);
            for number in consumed.drain(..) {
                self.queue().settle(number, u64::from(SEGMENT / 64));
                self.post(number).expect("there was room for it before");
            }
            runtime.sleep(REFILL_NS).await;
        }
    }
}

impl Sender {
    /// Sends one record after the other. A READ of one byte behind the record shows that the record is persisted: with
    /// DDIO off, the READ pushes the record to the memory controller.
    async fn run(self, logs: Rc<Logs>, records: Rc<Cell<u64>>) {
        loop {
            self.make(&logs);
            let local = self.record;
            let record = match self.load.design {
                Design::Append => Operation::Send { local },
                Design::Write | Design::WriteInTurns => Operation::Write {
                    local,
                    remote: RemoteAddress {
                        address: self.log.address + logs.next(self.number),
                        rkey: self.log.rkey,
                    },
                },
            };
            let flush = Operation::Read {
                local: self.fetched,
                remote: self.log,
            };
            let sent = self.port.submit(self.qp, &[record, flush]).await;
            assert_eq!(sent.expect("room for a record"), Status::Success);
            records.set(records.get() + 1);
        }
    }

    /// Copies a record from an object somewhere in memory, which no cache has.
    fn make(&self, logs: &Logs) {
        let mut object = vec![0; self.load.size as usize];
        let memory = self.port.device().memory(self.record.region);
        memory.read(OBJECTS + logs.draw_object(), &mut object);
        memory.write(self.record.offset, &object);
    }
}

/// A core of the receiver that writes.
struct LocalWriter {
    log: Rc<dyn PersistentRegion>,
    /// The place at which its log begins.
    start: u64,
    size: u64,
}

impl LocalWriter {
    /// Writes one record behind the other, and persists each.
    async fn run(self, records: Rc<Cell<u64>>) {
        let commit = Commit::choose(PLATFORM, Durability::Power, self.log.means())
            .expect("the declaration fits the platform");
        let record = vec![1; self.size as usize];
        for offset in (0..u64::from(SEGMENT)).step_by(record.len()).cycle() {
            let span = Span::new(self.start + offset, self.size);
            self.log.write(span.offset, &record);
            let persisted = commit.persist(&*self.log, &[span]).await;
            let _proof = persisted.expect("nothing disturbs the medium");
            records.set(records.get() + 1);
            give_way().await;
        }
    }
}

impl Logs {
    fn new(load: &Load) -> Self {
        Self {
            ends: RefCell::new(vec![0; load.senders as usize]),
            random: RefCell::new(random_from_seed(SEED)),
            drawn: load.design == Design::Write,
            size: load.size.into(),
        }
    }

    /// The place of an object among all of them.
    fn draw_object(&self) -> u64 {
        64 * self
            .random
            .borrow_mut()
            .random_range(0..OBJECTS_SIZE / 64 - 64)
    }

    /// The place of the next record of `sender`.
    fn next(&self, sender: usize) -> u64 {
        let ends = &mut *self.ends.borrow_mut();
        let log = if self.drawn {
            self.random.borrow_mut().random_range(0..ends.len())
        } else {
            sender
        };
        let end = ends[log];
        ends[log] = (end + self.size) % u64::from(SEGMENT);
        log as u64 * u64::from(SEGMENT) + end
    }
}

fn queues(port: &Port, queue: Option<&AppendQueue>) -> QueuePairOptions {
    QueuePairOptions {
        send_cq: port.send_cq(),
        receive_cq: port.receive_cq(),
        shared_receive_queue: queue.map(AppendQueue::shared_queue),
        windows: false,
        send_capacity: 8,
        receive_capacity: 8,
        rnr_retry_count: 7,
        rnr_retry_delay_ns: 10_000,
    }
}
