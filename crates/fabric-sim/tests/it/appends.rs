//! Several senders append to one multi-packet queue: the order of placements, and the reports.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rand::RngExt as _;
use stonecast_fabric::append::{AppendOptions, AppendQueue, Appender};
use stonecast_fabric::{
    Access, ConnectionEvent, DeviceError, LocalSpan, MemoryRegion, MultiPacketOptions, Opcode,
    Operation, Placement, Port, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status, WorkCompletion,
};
use stonecast_fabric_sim::{
    Faults, Features, Machine, MachineOptions, MachineProfile, Process, World,
};

const STRIDE: u32 = 64;
/// Strides of the buffer.
const PLACES: u64 = 64;

/// A connected sender.
pub struct Sender {
    pub process: Process,
    pub port: Rc<Port>,
    pub qp: QueuePair,
    pub buffer: MemoryRegion,
    /// The receiver's queue pair.
    pub theirs: QueuePair,
}

struct Appends {
    world: World,
    receiver: Rc<Port>,
    queue: SharedReceiveQueue,
    memory: MemoryRegion,
    senders: Vec<Sender>,
    /// The machines of the senders.
    machines: Vec<Machine>,
}

impl Appends {
    /// A receiver with one buffer in a silent queue, and two senders, each on a machine of its own.
    fn new(seed: u64) -> Self {
        let world = World::new(seed);
        let options = MachineOptions {
            features: Features::ALL,
            inbound_stall_ns_max: 5_000,
            ..MachineOptions::new(MachineProfile::MODERN)
        };
        let receiver = world.process(world.machine(options)).port(256).unwrap();
        let device = receiver.device().clone();
        device.listen("sim:receiver").unwrap();
        let queue = device
            .create_shared_receive_queue(SharedReceiveQueueOptions {
                capacity: 4,
                multi_packet: Some(MultiPacketOptions::silent(STRIDE)),
                in_order: false,
            })
            .unwrap();
        let size = PLACES as u32 * STRIDE;
        let memory = device.allocate(u64::from(size), Access::NONE).unwrap();
        let buffer = ReceiveRequest {
            wr_id: 9,
            local: LocalSpan {
                region: memory,
                offset: 0,
                size,
            },
        };
        device
            .post_receive(ReceiveQueue::Shared(queue), &[buffer])
            .unwrap();
        let mut appends = Self {
            world,
            receiver,
            queue,
            memory,
            senders: Vec::new(),
            machines: Vec::new(),
        };
        for _ in 0..2 {
            let machine = appends.world.machine(options);
            let sender = appends.connect(appends.world.process(machine));
            appends.machines.push(machine);
            appends.senders.push(sender);
        }
        appends
    }

    fn connect(&self, process: Process) -> Sender {
        connect(&self.world, &self.receiver, self.queue, process)
    }

    /// Lets each sender post `count` messages of one stride, in turn.
    fn send(&self, count: usize) {
        for _ in 0..count {
            for sender in &self.senders {
                let send = Operation::Send {
                    local: LocalSpan {
                        region: sender.buffer,
                        offset: 0,
                        size: STRIDE,
                    },
                };
                sender.port.post(sender.qp, [send]).unwrap();
            }
        }
    }

    /// For each place whether a message is there.
    fn places(&self) -> Vec<bool> {
        let mut bytes = vec![0; (PLACES * u64::from(STRIDE)) as usize];
        let memory = self.receiver.device().memory(self.memory);
        memory.read(0, &mut bytes);
        bytes
            .chunks(STRIDE as usize)
            .map(|place| place[0] == 7)
            .collect()
    }

    fn consumed(&self) -> Vec<u64> {
        let mut buffers = Vec::new();
        let device = self.receiver.device();
        device.poll_consumed(self.queue, &mut buffers);
        buffers
    }
}

/// A queue pair on `port` that takes its buffers from `queue`.
pub fn queues(port: &Port, queue: Option<SharedReceiveQueue>) -> QueuePairOptions {
    QueuePairOptions {
        send_cq: port.send_cq(),
        receive_cq: port.receive_cq(),
        shared_receive_queue: queue,
        windows: false,
        send_capacity: 64,
        receive_capacity: 64,
        rnr_retry_count: 3,
        rnr_retry_delay_ns: 10_000,
    }
}

/// A sender in `process`, connected to `receiver`, which lets it take buffers from `queue`.
pub fn connect(
    world: &World,
    receiver: &Rc<Port>,
    queue: SharedReceiveQueue,
    process: Process,
) -> Sender {
    let port = process.port(256).unwrap();
    let (device, serving) = (port.device().clone(), receiver.device().clone());
    let qp = device.create_queue_pair(queues(&port, None)).unwrap();
    let theirs = serving
        .create_queue_pair(queues(receiver, Some(queue)))
        .unwrap();
    device.connect(qp, "sim:receiver", b"").unwrap();
    world.block_on(async {
        while receiver.take_event().is_none_or(|event| {
            let ConnectionEvent::Request { request, .. } = event else {
                return true;
            };
            serving.accept(request, theirs, b"").unwrap();
            false
        }) {
            receiver.activity().await;
        }
        port.activity().await;
    });
    let buffer = device.allocate(4096, Access::NONE).unwrap();
    device.memory(buffer).write(0, &[7; 4096]);
    Sender {
        process,
        port,
        qp,
        buffer,
        theirs,
    }
}

/// Needs the placement of each sender by itself: in the order of arrival across senders, no place would ever be empty
/// before a taken one, and a store that relies on that would pass here and lose data on a NIC.
#[test]
fn a_message_may_lie_behind_an_empty_place_and_no_hole_stays() {
    let appends = Appends::new(1);
    appends.send(32);
    let mut holes = 0;
    while appends.world.step() {
        let places = appends.places();
        holes += usize::from(places.windows(2).any(|pair| pair == [false, true]));
    }
    assert!(holes > 0, "senders do not wait for each other");
    assert_eq!(appends.places(), [true; PLACES as usize]);
    assert_eq!(appends.consumed(), [9]);
}

/// Needs the wait for the messages inside the NIC: the end of the connection alone leaves messages in transit.
#[test]
fn quiescing_waits_for_messages_inside_the_nic_and_nothing_lands_afterwards() {
    let mut waited = 0;
    for seed in 0..20 {
        let appends = Appends::new(seed);
        appends.world.set_faults(Faults {
            late_placement_percent: 100,
            placement_delayed_per_million: 500_000,
            ..Faults::default()
        });
        appends.send(20);
        for _ in 0..100 {
            appends.world.step();
        }
        let device = appends.receiver.device().clone();
        for sender in &appends.senders {
            let mut context = Context::from_waker(Waker::noop());
            let first = device.poll_quiesce(sender.theirs, &mut context);
            waited += usize::from(first.is_pending());
        }
        for sender in &appends.senders {
            let quiet = poll_fn(|context| device.poll_quiesce(sender.theirs, context));
            appends.world.block_on(quiet).unwrap();
        }
        let places = appends.places();
        while appends.world.step() {}
        assert_eq!(places, appends.places(), "seed {seed}");
    }
    assert!(waited > 0, "messages were inside the NIC");
}

/// The fate of a sender in the middle of its appends.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Killed,
    Stopped,
    NicReset,
    Destroyed,
    GoesOn,
}

impl Fate {
    const ALL: [Self; 5] = [
        Self::Killed,
        Self::Stopped,
        Self::NicReset,
        Self::Destroyed,
        Self::GoesOn,
    ];

    fn meet(self, appends: &Appends, sender: &Sender) {
        match self {
            Self::Killed => sender.process.kill(),
            Self::Stopped => sender.process.pause(1_000_000),
            Self::NicReset => appends.world.reset_nic(appends.machines[0]),
            Self::Destroyed => sender
                .port
                .device()
                .destroy_queue_pair(sender.qp)
                .expect("the queue pair exists"),
            Self::GoesOn => {}
        }
    }
}

/// Number of seeds in the story of the quiesced sender.
const TRIES: u64 = 10_000;

/// Needs the wait for the messages inside the NIC. The other sender continues, and its messages land behind the holes.
#[test]
fn no_message_of_a_quiesced_sender_lands_whatever_its_fate() {
    let (mut before, mut accepted) = (0, 0);
    for seed in 0..TRIES {
        let appends = Appends::new(seed);
        appends.world.set_faults(Faults {
            late_placement_percent: 50,
            placement_delayed_per_million: 300_000,
            ..Faults::default()
        });
        let [sender, other] = &appends.senders[..] else {
            panic!("two senders")
        };
        other
            .port
            .device()
            .memory(other.buffer)
            .write(0, &[9; 4096]);
        appends.send(20);
        let random = &mut stonecast_base::random_from_seed(seed);
        for _ in 0..random.random_range(0..300) {
            appends.world.step();
        }
        let fate = Fate::ALL[seed as usize % Fate::ALL.len()];
        fate.meet(&appends, sender);
        let device = appends.receiver.device().clone();
        let quiet = poll_fn(|context| device.poll_quiesce(sender.theirs, context));
        appends.world.block_on(quiet).unwrap();
        let landed = |places: Vec<bool>| places.into_iter().filter(|&is_there| is_there).count();
        let then = landed(appends.places());
        while appends.world.step() {}
        let late = landed(appends.places()) - then;
        assert_eq!(late, 0, "seed {seed}, {fate:?}");
        before += then;
        accepted += late;
    }
    println!("{TRIES} tries: {before} messages before, {accepted} after");
    assert!(before > 0, "messages land earlier");
}

/// Needs the count of messages that a buffer waits for: without it the number would be lost with the senders, and the
/// buffer with it.
#[test]
fn a_buffer_comes_back_whatever_the_fate_of_its_senders() {
    for seed in 0..20 {
        let mut appends = Appends::new(seed);
        appends.world.set_faults(Faults {
            late_placement_percent: 50,
            placement_delayed_per_million: 500_000,
            ..Faults::default()
        });
        appends.send(32);
        for _ in 0..(seed * 20) {
            appends.world.step();
        }
        // One sender dies, the receiver destroys its end of the other, and a third sender fills the remaining places.
        let device = appends.receiver.device().clone();
        appends.senders[0].process.kill();
        device
            .destroy_queue_pair(appends.senders[1].theirs)
            .unwrap();
        while appends.world.step() {}
        assert_eq!(
            device
                .poll_quiesce(
                    appends.senders[0].theirs,
                    &mut Context::from_waker(Waker::noop())
                )
                .map(|quiet| quiet.is_ok()),
            Poll::Ready(true)
        );
        appends.world.heal();
        if appends.consumed() == [9] {
            continue;
        }
        let process = appends.senders[1].process.clone();
        let third = appends.connect(process);
        appends.senders = vec![third];
        let mut consumed = Vec::new();
        for _ in 0..PLACES {
            appends.send(1);
            while appends.world.step() {}
            consumed.extend(appends.consumed());
            if !consumed.is_empty() {
                break;
            }
        }
        assert_eq!(consumed, [9], "seed {seed}");
    }
}

/// Bytes of the longest message in the stories of slots, and messages that a buffer takes.
const MESSAGE: u32 = 4096;
const PER_BUFFER: u32 = 4;
const OPTIONS: AppendOptions = AppendOptions {
    buffers: 4,
    buffer_size_max: PER_BUFFER * MESSAGE,
    grain: STRIDE,
    message_size_max: MESSAGE,
};

/// A receiver with an empty queue of appends on a machine of its own, and memory for two buffers.
fn receiver(world: &World, features: Features) -> (Rc<Port>, AppendQueue, MemoryRegion) {
    let (_, port, queue, memory) = receiver_on(world, features);
    (port, queue, memory)
}

/// A receiver as [`receiver`] makes it, and its machine.
fn receiver_on(
    world: &World,
    features: Features,
) -> (Machine, Rc<Port>, AppendQueue, MemoryRegion) {
    let options = MachineOptions {
        features,
        ..MachineOptions::new(MachineProfile::MODERN)
    };
    let machine = world.machine(options);
    let port = world.process(machine).port(256).unwrap();
    let device = port.device().clone();
    device.listen("sim:receiver").unwrap();
    let memory = device
        .allocate(2 * u64::from(OPTIONS.buffer_size_max), Access::NONE)
        .unwrap();
    let queue = AppendQueue::new(device, OPTIONS).unwrap();
    (machine, port, queue, memory)
}

fn buffer(memory: MemoryRegion, index: u32) -> LocalSpan {
    LocalSpan {
        region: memory,
        offset: u64::from(index * OPTIONS.buffer_size_max),
        size: OPTIONS.buffer_size_max,
    }
}

/// Needs the completion of the slot with the message of the dying sender, which must count although it failed: without
/// it the first buffer, and then each later one, would never come back.
#[test]
fn a_sender_that_dies_in_a_message_blocks_no_buffer() {
    for features in [Features::COMMON, Features::ALL] {
        let world = World::new(5);
        let (port, mut queue, memory) = receiver(&world, features);
        for index in [0, 1] {
            queue.post(u64::from(index), buffer(memory, index)).unwrap();
        }
        let mut consumed = Vec::new();
        for dies in [true, false] {
            let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
            let sender = connect(&world, &port, queue.shared_queue(), process);
            queue.grant(sender.theirs, 0);
            let appender = Appender::new(sender.port.clone(), sender.qp, queue.terms());
            let partial_placement_per_million = if dies { 1_000_000 } else { 0 };
            world.set_faults(Faults {
                partial_placement_per_million,
                ..Faults::default()
            });
            for _ in 0..if dies { 1 } else { 2 * PER_BUFFER - 1 } {
                // Paid or not, the buffers have room for all of the messages.
                appender.add_credits(appender.cost(MESSAGE));
                let entry = LocalSpan {
                    region: sender.buffer,
                    offset: 0,
                    size: MESSAGE,
                };
                let appended = world.block_on(appender.append(entry)).unwrap();
                assert_eq!(appended == Status::Success, !dies);
                while world.step() {}
                while let Some(arrival) = port.take_received() {
                    assert!(queue.note_arrival(&arrival));
                }
            }
            queue.take_consumed(&mut consumed);
        }
        assert_eq!(consumed, [0, 1], "{features:?}");
    }
}

/// Needs the completion of messages that the NIC had taken and not placed: nothing else reports that the slot is used
/// up.
#[test]
fn a_nic_that_is_reset_completes_the_slot_of_an_acknowledged_message() {
    let world = World::new(8);
    let (machine, port, mut queue, memory) = receiver_on(&world, Features::COMMON);
    let slot = LocalSpan {
        size: MESSAGE,
        ..buffer(memory, 0)
    };
    queue.post(3, slot).unwrap();
    let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
    let sender = connect(&world, &port, queue.shared_queue(), process);
    let appender = Appender::new(sender.port.clone(), sender.qp, queue.terms());
    appender.add_credits(queue.grant(sender.theirs, 1));
    world.set_faults(Faults {
        late_placement_percent: 100,
        placement_delayed_per_million: 1_000_000,
        ..Faults::default()
    });
    let entry = LocalSpan {
        region: sender.buffer,
        offset: 0,
        size: MESSAGE,
    };
    let appended = world.block_on(appender.append(entry)).unwrap();
    assert_eq!(appended, Status::Success, "the append was acknowledged");
    world.reset_nic(machine);
    while world.step() {}
    let arrival = port.take_received().unwrap();
    assert_eq!(arrival.status, Status::WorkRequestFlushed);
    assert!(queue.note_arrival(&arrival));
    let mut consumed = Vec::new();
    queue.take_consumed(&mut consumed);
    assert_eq!(consumed, [3]);
}

/// Needs the wait for late completions: a slot whose completion comes after the quiet goes with its queue pair.
#[test]
fn quiescing_waits_for_late_completions_and_loses_no_slot() {
    let mut waited = 0;
    for seed in 0..20 {
        let world = World::new(seed);
        let (port, mut queue, memory) = receiver(&world, Features::COMMON);
        queue.post(3, buffer(memory, 0)).unwrap();
        let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
        let sender = connect(&world, &port, queue.shared_queue(), process);
        let appender = Appender::new(sender.port.clone(), sender.qp, queue.terms());
        appender.add_credits(queue.grant(sender.theirs, u64::from(PER_BUFFER)));
        world.set_faults(Faults {
            completion_delayed_per_million: 1_000_000,
            ..Faults::default()
        });
        for _ in 0..PER_BUFFER {
            let entry = LocalSpan {
                region: sender.buffer,
                offset: 0,
                size: MESSAGE,
            };
            world.block_on(appender.append(entry)).unwrap();
        }
        let device = port.device();
        let mut context = Context::from_waker(Waker::noop());
        waited += usize::from(
            device
                .poll_quiesce(sender.theirs, &mut context)
                .is_pending(),
        );
        let quiet = poll_fn(|context| device.poll_quiesce(sender.theirs, context));
        world.block_on(quiet).unwrap();
        while port.pump() {}
        while let Some(arrival) = port.take_received() {
            assert!(queue.note_arrival(&arrival));
        }
        device.destroy_queue_pair(sender.theirs).unwrap();
        let mut consumed = Vec::new();
        queue.take_consumed(&mut consumed);
        assert_eq!(consumed, [3], "seed {seed}");
    }
    assert!(waited > 0, "completions were late");
}

/// Needs the check of the queue pair: without it a receive buffer of another owner with the same identifier would count
/// as a message, and memory that is still being written would come back.
#[test]
fn an_arrival_on_a_queue_pair_that_is_not_a_sender_is_not_taken() {
    let world = World::new(6);
    let (_port, mut queue, memory) = receiver(&world, Features::COMMON);
    queue.post(7, buffer(memory, 0)).unwrap();
    let (sender, other) = (QueuePair(1), QueuePair(2));
    assert_eq!(queue.grant(sender, 0), 0);
    let arrival = |qp| WorkCompletion {
        wr_id: 0,
        status: Status::Success,
        opcode: Opcode::Receive,
        qp,
        immediate: 0,
        placement: Placement { offset: 0, size: 8 },
    };
    assert!(!queue.note_arrival(&arrival(other)));
    assert!(queue.note_arrival(&arrival(sender)));
    queue.forget(sender, 0);
    assert!(!queue.note_arrival(&arrival(sender)));
}

#[test]
fn a_buffer_that_is_longer_than_the_options_allow_is_refused_on_any_device() {
    for features in [Features::COMMON, Features::ALL] {
        let world = World::new(7);
        let (_port, mut queue, memory) = receiver(&world, features);
        let long = LocalSpan {
            size: OPTIONS.buffer_size_max + STRIDE,
            ..buffer(memory, 0)
        };
        let refused = queue.post(0, long);
        assert!(
            matches!(refused, Err(DeviceError::Malformed { .. })),
            "{features:?}: {refused:?}"
        );
        queue.post(0, buffer(memory, 0)).unwrap();
    }
}

/// Needs the saturating sum: without it a receiver that grants more than can exist would end its sender, or its credit.
#[test]
fn invented_credits_of_a_peer_do_not_overflow() {
    let world = World::new(9);
    let (port, queue, _) = receiver(&world, Features::COMMON);
    let appender = Appender::new(port, QueuePair(0), queue.terms());
    appender.add_credits(u64::MAX);
    appender.add_credits(1);
    assert_eq!(appender.credits(), u64::MAX);
}
