//! Appends of several senders from a seed, with a mishap in the middle; every run checks every promise.
//!
//! ```text
//!   senders  --entry, entry, ...-->  queue of four buffers  -->  receiver parses what comes back, posts again, grants
//!                                        mishap: kill, stop, quiesce, reset, partition
//! ```
//!
//! Faults of the NICs are drawn, too: messages stay inside for a while, and are placed after their connection ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric::append::{AppendOptions, AppendQueue, Appender};
use stonecast_fabric::{
    Access, ConnectionEvent, Inbox, LocalSpan, MemoryRegion, Port, QueuePair, Status,
};
use stonecast_fabric_sim::{
    Faults, Features, Machine, MachineOptions, MachineProfile, Process, World,
};

use crate::appends::{connect, queues};

const SENDERS: usize = 3;
const ENTRIES: u32 = 60;
const GRAIN: u32 = 64;
const OPTIONS: AppendOptions = AppendOptions {
    buffers: BUFFERS as u32,
    buffer_size_max: BUFFER_SIZE,
    grain: GRAIN,
    message_size_max: 512,
};
const BUFFERS: usize = 4;
const BUFFER_SIZE: u32 = 8192;
/// The most credits of a sender.
const CREDITS: u64 = 16;
/// The interval at which the receiver polls and at which holes are searched for.
const LOOK_NS: u64 = 1_000;
/// The time within which every unhindered sender has finished: far more than a run without a mishap takes.
const ENOUGH_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    None,
    Kill,
    Stop,
    Quiesce,
    Reset,
    Partition,
}

const MISHAPS: [Mishap; 6] = [
    Mishap::None,
    Mishap::Kill,
    Mishap::Stop,
    Mishap::Quiesce,
    Mishap::Reset,
    Mishap::Partition,
];

/// A sender, as known to the receiver and the judge.
struct Sender {
    process: Process,
    machine: Machine,
    theirs: QueuePair,
    inbox: Inbox,
    appender: Rc<Appender>,
    /// Number of accepted entries, and whether the sender has stopped because an entry was not accepted.
    accepted: Rc<Cell<u32>>,
    failed: Rc<Cell<Option<Status>>>,
}

/// An entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    sender: usize,
    number: u32,
}

struct Run {
    world: World,
    receiver: Rc<Port>,
    machine: Machine,
    memory: MemoryRegion,
    queue: RefCell<AppendQueue>,
    packed: bool,
    senders: Vec<Sender>,
    /// Entries of the buffers that came back, in order.
    delivered: RefCell<Vec<Found>>,
    /// Buffers in the order of their posts.
    posted: RefCell<Vec<u64>>,
    holes: Cell<u64>,
}

fn entry(sender: usize, number: u32, size: usize) -> Vec<u8> {
    let mut bytes = vec![sender as u8 + 1; size];
    bytes[1..3].copy_from_slice(&(size as u16).to_le_bytes());
    bytes[3..7].copy_from_slice(&number.to_le_bytes());
    bytes
}

impl Run {
    fn new(seed: u64, packed: bool) -> Self {
        let world = World::new(seed);
        let options = MachineOptions {
            features: if packed {
                Features::ALL
            } else {
                Features::COMMON
            },
            inbound_stall_ns_max: 5_000,
            ..MachineOptions::new(MachineProfile::MODERN)
        };
        let machine = world.machine(options);
        let receiver = world.process(machine).port(1024).unwrap();
        let device = receiver.device().clone();
        device.listen("sim:receiver").unwrap();
        let bytes = BUFFERS as u64 * u64::from(BUFFER_SIZE);
        let memory = device.allocate(bytes, Access::NONE).unwrap();
        let queue = RefCell::new(AppendQueue::new(device, OPTIONS).unwrap());
        let mut run = Self {
            world,
            receiver,
            machine,
            memory,
            queue,
            packed,
            senders: Vec::new(),
            delivered: RefCell::default(),
            posted: RefCell::default(),
            holes: Cell::new(0),
        };
        (0..BUFFERS as u64).for_each(|buffer| run.post(buffer));
        for number in 0..SENDERS {
            let machine = run.world.machine(options);
            let sender = run.join(number, machine, seed);
            run.senders.push(sender);
        }
        run
    }

    fn post(&self, buffer: u64) {
        let local = LocalSpan {
            region: self.memory,
            offset: buffer * u64::from(BUFFER_SIZE),
            size: BUFFER_SIZE,
        };
        let memory = self.receiver.device().memory(self.memory);
        memory.write(local.offset, &[0; BUFFER_SIZE as usize]);
        self.queue.borrow_mut().post(buffer, local).unwrap();
        self.posted.borrow_mut().push(buffer);
    }

    /// Connects a sender and lets it append its entries.
    fn join(&self, number: usize, machine: Machine, seed: u64) -> Sender {
        let process = self.world.process(machine);
        let shared = self.queue.borrow().shared_queue();
        let sender = connect(&self.world, &self.receiver, shared, process);
        let inbox = Inbox::new(&self.receiver);
        inbox.claim(sender.theirs);
        let terms = self.queue.borrow().terms();
        let appender = Rc::new(Appender::new(sender.port.clone(), sender.qp, terms));
        self.queue.borrow_mut().grant(sender.theirs, 0);
        let (accepted, failed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
        let task = {
            let (appender, accepted, failed) = (appender.clone(), accepted.clone(), failed.clone());
            let (runtime, port, buffer) =
                (sender.process.runtime(), sender.port.clone(), sender.buffer);
            async move {
                let mut random = random_from_seed(seed ^ number as u64);
                for entry_number in 0..ENTRIES {
                    let size = random.random_range(16..=512);
                    while appender.credits() < appender.cost(size) {
                        runtime.sleep(2_000).await;
                    }
                    let bytes = entry(number, entry_number, size as usize);
                    port.device().memory(buffer).write(0, &bytes);
                    let local = LocalSpan {
                        region: buffer,
                        offset: 0,
                        size,
                    };
                    match appender.append(local).await.unwrap() {
                        Status::Success => accepted.set(entry_number + 1),
                        status => return failed.set(Some(status)),
                    }
                }
            }
        };
        sender.process.runtime().spawn(Box::pin(task));
        Sender {
            machine,
            theirs: sender.theirs,
            process: sender.process,
            inbox,
            appender,
            accepted,
            failed,
        }
    }

    /// Entries of a buffer from its start, and the number of grains before the end of the last entry.
    fn parse(&self, buffer: u64) -> (Vec<Found>, u64) {
        let mut bytes = vec![0; BUFFER_SIZE as usize];
        let memory = self.receiver.device().memory(self.memory);
        memory.read(buffer * u64::from(BUFFER_SIZE), &mut bytes);
        let step = if self.packed {
            GRAIN
        } else {
            OPTIONS.message_size_max
        } as usize;
        let (mut found, mut place, mut end) = (Vec::new(), 0, 0);
        while place < bytes.len() {
            let Some(sender) = bytes[place].checked_sub(1) else {
                place += step;
                continue;
            };
            let size = u16::from_le_bytes([bytes[place + 1], bytes[place + 2]]) as usize;
            let number = u32::from_le_bytes(bytes[place + 3..place + 7].try_into().unwrap());
            let sender = sender as usize;
            let whole = entry(sender, number, size.max(7));
            assert_eq!(bytes[place..place + size], whole, "an entry is whole");
            found.push(Found { sender, number });
            place += size.next_multiple_of(step);
            end = place;
        }
        (found, (end / step) as u64)
    }

    /// The entries of `sender` in memory.
    fn lies(&self, sender: usize) -> Vec<u32> {
        let buffers = (0..BUFFERS as u64).flat_map(|buffer| self.parse(buffer).0);
        let own = buffers.filter(|found| found.sender == sender);
        own.map(|found| found.number).collect()
    }

    /// The periodic work of a receiver.
    fn look(&self) {
        let mut queue = self.queue.borrow_mut();
        for sender in &self.senders {
            while let Some(arrival) = sender.inbox.take_received() {
                assert_eq!(arrival.qp, sender.theirs);
                assert!(
                    queue.note_arrival(&arrival),
                    "a silent queue reports nothing"
                );
            }
            // Few enough that a stopped sender that holds them leaves enough for the others.
            let wanted = CREDITS.saturating_sub(sender.appender.credits());
            if sender.failed.get().is_none() {
                sender
                    .appender
                    .add_credits(queue.grant(sender.theirs, wanted));
            }
        }
        assert_eq!(
            self.receiver.take_received(),
            None,
            "arrivals go to their claimant"
        );
        let mut consumed = Vec::new();
        queue.take_consumed(&mut consumed);
        drop(queue);
        for buffer in consumed {
            let (found, _) = self.parse(buffer);
            self.delivered.borrow_mut().extend(found);
            assert_eq!(self.posted.borrow_mut().remove(0), buffer, "oldest first");
            let grains = if self.packed {
                BUFFER_SIZE / GRAIN
            } else {
                BUFFER_SIZE / 512
            };
            self.queue.borrow_mut().settle(buffer, grains.into());
            self.post(buffer);
        }
        self.look_for_holes();
    }

    fn look_for_holes(&self) {
        let first = self.posted.borrow()[0];
        let mut bytes = vec![0; BUFFER_SIZE as usize];
        let memory = self.receiver.device().memory(self.memory);
        memory.read(first * u64::from(BUFFER_SIZE), &mut bytes);
        let taken = bytes
            .chunks(GRAIN as usize)
            .map(|grain| grain.iter().any(|&byte| byte != 0));
        let taken: Vec<bool> = taken.collect();
        let last = taken.iter().rposition(|&taken| taken).unwrap_or(0);
        let hole = self.packed && taken[..last].contains(&false);
        self.holes.set(self.holes.get() + u64::from(hole));
    }

    /// Lets `duration_ns` pass, with a polling receiver.
    fn pass(&self, duration_ns: u64) {
        let observer = self.world.observer();
        let end = self.world.now() + duration_ns;
        while self.world.now() < end {
            self.world.block_on(observer.sleep(LOOK_NS));
            self.look();
            let done =
                |sender: &Sender| sender.failed.get().is_some() || sender.accepted.get() == ENTRIES;
            if self.senders.iter().all(done) {
                break;
            }
        }
    }

    fn quiesce(&self, sender: usize) {
        let quiet = self.receiver.quiesce(self.senders[sender].theirs);
        self.world.block_on(quiet).unwrap();
    }

    /// A connection that is requested during a partition is not made before its end.
    fn knock(&self, machine: Machine) {
        let process = self.world.process(machine);
        let port = process.port(16).unwrap();
        let device = port.device().clone();
        let qp = device.create_queue_pair(queues(&port, None)).unwrap();
        device.connect(qp, "sim:receiver", b"").unwrap();
        self.pass(5_000_000);
        let request = self.receiver.take_event();
        assert!(
            !matches!(request, Some(ConnectionEvent::Request { .. })),
            "no handshake passes a partition"
        );
    }

    /// Causes `mishap` at the first sender, and checks its forbidden consequences.
    fn befall(&self, mishap: Mishap) {
        let first = &self.senders[0];
        match mishap {
            Mishap::None => {}
            Mishap::Kill => first.process.kill(),
            Mishap::Stop => first.process.pause(ENOUGH_NS),
            Mishap::Reset => self.world.reset_nic(self.machine),
            Mishap::Partition => {
                self.world
                    .block(Some(first.machine), None, 0, 2 * ENOUGH_NS);
                self.world
                    .block(None, Some(first.machine), 0, 2 * ENOUGH_NS);
                self.knock(first.machine);
            }
            Mishap::Quiesce => {
                self.quiesce(0);
                let before = self.lies(0);
                // Nothing is taken out in between, so that every landing message is seen.
                self.world.block_on(self.world.observer().sleep(4_000_000));
                assert_eq!(before, self.lies(0), "nothing lands after quiesce");
            }
        }
    }

    /// Compares the reports of each sender with the actual entries, at the end.
    fn judge(&self, mishap: Mishap) {
        let mut there: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        let in_memory = self.posted.borrow().clone();
        let rest = in_memory
            .into_iter()
            .flat_map(|buffer| self.parse(buffer).0);
        for found in self.delivered.borrow().iter().copied().chain(rest) {
            there.entry(found.sender).or_default().push(found.number);
        }
        for (number, sender) in self.senders.iter().enumerate() {
            let numbers = there.remove(&number).unwrap_or_default();
            let ascending = numbers.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(
                ascending,
                "entries of sender {number} are in order: {numbers:?}"
            );
            let harmed = mishap == Mishap::Reset || number == 0 && mishap != Mishap::None;
            let status = sender.failed.get();
            assert!(
                harmed || status.is_none(),
                "a sender that pays finds room: {status:?}"
            );
            assert!(
                harmed || sender.accepted.get() == ENTRIES,
                "sender {number} waits for no other sender: {} entries",
                sender.accepted.get()
            );
            if mishap != Mishap::Reset {
                let accepted: Vec<u32> = (0..sender.accepted.get()).collect();
                let kept =
                    numbers.len() >= accepted.len() && numbers[..accepted.len()] == accepted[..];
                assert!(
                    kept,
                    "accepted entries are present: sender {number}, {numbers:?}"
                );
            }
        }
        if self.packed && mishap == Mishap::None {
            assert!(self.holes.get() > 0, "senders do not wait for each other");
        }
    }

    /// Finally, new senders fill the buffers several times.
    fn fill_again(&mut self, seed: u64) {
        self.world.heal();
        let before = self.delivered.borrow().len();
        for number in 0..SENDERS {
            let left = self.senders[number].theirs;
            self.quiesce(number);
            self.look();
            self.queue.borrow_mut().forget(left, 0);
        }
        self.senders.clear();
        self.world.block_on(self.world.observer().sleep(4_000_000));
        while self.receiver.take_event().is_some() {}
        let machine = self
            .world
            .machine(MachineOptions::new(MachineProfile::MODERN));
        let sender = self.join(0, machine, seed + 1);
        self.senders.push(sender);
        self.pass(ENOUGH_NS);
        let back = self.delivered.borrow().len() - before;
        assert_eq!(
            self.senders[0].accepted.get(),
            ENTRIES,
            "buffers come back: {back}"
        );
    }
}

/// One run from `seed`; returns its mishap and counts. Panics with the name of a broken promise.
pub fn run(seed: u64) -> (String, BTreeMap<&'static str, u64>) {
    let mut random = random_from_seed(seed);
    let packed = random.random_bool(0.6);
    let mishap = MISHAPS[random.random_range(0..MISHAPS.len())];
    let after_ns = random.random_range(5_000..120_000);
    let mut run = Run::new(seed, packed);
    if random.random() {
        run.world.set_faults(Faults {
            late_placement_percent: 50,
            placement_delayed_per_million: 20_000,
            ..Faults::default()
        });
    }
    let observer = run.world.observer();
    let end = run.world.now() + after_ns;
    while run.world.now() < end {
        run.world.block_on(observer.sleep(LOOK_NS));
        run.look();
    }
    run.befall(mishap);
    run.pass(ENOUGH_NS / 2);
    run.world.block_on(observer.sleep(4_000_000));
    run.look();
    run.judge(mishap);
    if mishap != Mishap::Stop && mishap != Mishap::Partition {
        run.fill_again(seed);
    }
    (
        format!("{mishap:?} packed={packed}"),
        run.world.fault_hits(),
    )
}

#[test]
fn appends_keep_every_promise_in_runs_with_mishaps() {
    let mut kinds = BTreeMap::new();
    for seed in 0..80 {
        println!("seed {seed}");
        *kinds.entry(run(seed).0).or_insert(0) += 1;
    }
    println!("{kinds:?}");
    assert_eq!(
        kinds.len(),
        2 * MISHAPS.len(),
        "every mishap on both kinds of device"
    );
}

/// Seeds within which each seeded bug must be found.
#[cfg(feature = "mutants")]
const SEEDS_MAX: u64 = 400;

#[cfg(feature = "mutants")]
#[test]
fn every_seeded_bug_of_appends_is_found() {
    let objects = |seed| _ = run(seed);
    assert!(stonecast_base::hunts::by_seeds("appends", SEEDS_MAX, objects) > 6);
}
