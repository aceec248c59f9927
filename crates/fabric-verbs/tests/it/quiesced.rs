//! No request of a quiesced peer lands: an appender in another process that is killed, stopped, or loses its queue
//! pair.
//!
//! `STONECAST_QUIESCE_TRIES` sets the number of tries. `STONECAST_RDMA_LINK` names the network interface under the last
//! device, which one test takes down.

use std::process::Command;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rustix::process::Signal;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, LocalSpan, MemoryRegion, QueuePair,
    QueuePairOptions, ReceiveQueue, ReceiveRequest, RemoteAddress, SharedReceiveQueue,
    SharedReceiveQueueOptions, Status, WorkCompletion,
};
use stonecast_fabric_verbs::VerbsDevice;

use crate::appender::{Appender, MESSAGE, Orders, OwnEnd, WRITE};
use crate::device::{devices_or_note, note};
use crate::pairs::{connect, queue_pair_options, wait};
use crate::world::{free_address, options};

/// Names the network interface under the receiver's device, which a test takes down.
const LINK: &str = "STONECAST_RDMA_LINK";
/// Number of tries.
const TRIES: &str = "STONECAST_QUIESCE_TRIES";
const TRIES_IN_CI: u64 = 50;
/// The seed of fates and moments.
const SEED: u64 = 16;
/// Slots for messages, in front of the place for WRITEs.
const SLOTS: u32 = 64;
const PLACE: u64 = (SLOTS * MESSAGE) as u64;
const SIZE: u64 = PLACE + WRITE as u64;
/// Time for which late bytes are watched: longer than the retransmission timeout of an appender.
const AFTERWARDS: Duration = Duration::from_millis(50);

/// The fate of an appender in the middle of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Killed,
    Stopped,
    LosesItsQueuePair(OwnEnd),
    GoesOn,
}

impl Fate {
    fn draw(random: &mut Random) -> Self {
        match random.random_range(0..10) {
            0..2 => Self::Killed,
            2..5 => Self::Stopped,
            5 => Self::LosesItsQueuePair(OwnEnd::Failed),
            6 => Self::LosesItsQueuePair(OwnEnd::Destroyed),
            7 => Self::LosesItsQueuePair(OwnEnd::Reset),
            _ => Self::GoesOn,
        }
    }

    fn own_end(self) -> OwnEnd {
        match self {
            Self::LosesItsQueuePair(end) => end,
            _ => OwnEnd::Never,
        }
    }
}

/// The results of all tries.
#[derive(Debug, Default)]
struct Tally {
    killed: u64,
    stopped: u64,
    failed: u64,
    destroyed: u64,
    reset: u64,
    going_on: u64,
    /// Messages that were taken before the promise.
    taken: u64,
    /// Messages that were taken, or words that changed, after the promise.
    accepted: u64,
}

impl Tally {
    fn count(&mut self, fate: Fate) {
        *match fate {
            Fate::Killed => &mut self.killed,
            Fate::Stopped => &mut self.stopped,
            Fate::LosesItsQueuePair(OwnEnd::Failed) => &mut self.failed,
            Fate::LosesItsQueuePair(OwnEnd::Destroyed) => &mut self.destroyed,
            Fate::LosesItsQueuePair(OwnEnd::Reset) => &mut self.reset,
            Fate::LosesItsQueuePair(OwnEnd::Never) | Fate::GoesOn => &mut self.going_on,
        } += 1;
    }
}

struct Receiver {
    device: Rc<VerbsDevice>,
    cq: CompletionQueue,
    queue: SharedReceiveQueue,
    memory: MemoryRegion,
}

impl Receiver {
    fn new(name: &str, address: &str) -> Self {
        let device = VerbsDevice::open(options(name)).expect("the device can be opened");
        let cq = device
            .create_completion_queue(4 * SLOTS)
            .expect("a completion queue");
        let queue = device
            .create_shared_receive_queue(SharedReceiveQueueOptions {
                capacity: SLOTS,
                multi_packet: None,
                in_order: false,
            })
            .expect("a shared receive queue");
        let memory = device.allocate(SIZE, Access::REMOTE_WRITE).expect("memory");
        device.listen(address).expect("a free address");
        let receiver = Self {
            device,
            cq,
            queue,
            memory,
        };
        (0..u64::from(SLOTS)).for_each(|slot| receiver.post(slot));
        receiver
    }

    fn post(&self, slot: u64) {
        let local = LocalSpan {
            region: self.memory,
            offset: slot * u64::from(MESSAGE),
            size: MESSAGE,
        };
        let request = ReceiveRequest { wr_id: slot, local };
        self.device
            .post_receive(ReceiveQueue::Shared(self.queue), &[request])
            .expect("a slot is free");
    }

    /// Accepts the next live caller.
    fn answer(&self, end: OwnEnd, batches: u32) -> QueuePair {
        let orders = Orders {
            place: RemoteAddress {
                address: self.memory.address + PLACE,
                rkey: self.memory.rkey,
            },
            end,
            batches,
        };
        loop {
            let shared = queue_pair_options(self.cq, Some(self.queue));
            let qp = self
                .device
                .create_queue_pair(QueuePairOptions {
                    rnr_retry_count: 1_000_000,
                    rnr_retry_delay_ns: 1_000_000,
                    ..shared
                })
                .expect("a queue pair");
            let request = wait("a request", || match self.device.poll_connection()? {
                ConnectionEvent::Request { request, .. } => Some(request),
                _ => None,
            });
            let accepted = self.device.accept(request, qp, &orders.encode());
            if accepted.is_ok() && self.is_connected(qp) {
                return qp;
            }
            self.device
                .destroy_queue_pair(qp)
                .expect("the queue pair exists");
        }
    }

    /// Whether the connection is established; false if it ends instead.
    fn is_connected(&self, wanted: QueuePair) -> bool {
        wait("a connection", || match self.device.poll_connection()? {
            ConnectionEvent::Established { qp, .. } if qp == wanted => Some(true),
            ConnectionEvent::Disconnected { qp, .. } if qp == wanted => Some(false),
            _ => None,
        })
    }

    /// Takes messages and posts their slots again. Returns the number of messages of `qp`.
    fn take(&self, qp: QueuePair) -> u64 {
        let mut taken = 0;
        loop {
            let mut arrived: Vec<WorkCompletion> = Vec::new();
            self.device.poll(self.cq, SLOTS as usize, &mut arrived);
            if arrived.is_empty() {
                return taken;
            }
            for message in arrived {
                taken += u64::from(message.qp == qp && message.status == Status::Success);
                self.post(message.wr_id);
            }
        }
    }

    fn clear(&self) {
        let memory = self.device.memory(self.memory);
        memory.write(0, &[0; SIZE as usize]);
    }

    /// Messages of `qp` that have arrived, and words that are not zero.
    fn landed(&self, qp: QueuePair) -> u64 {
        let memory = self.device.memory(self.memory);
        let changed = (0..SIZE / 8).filter(|&word| memory.load(word * 8) != 0);
        changed.count() as u64 + self.take(qp)
    }

    /// Lets an appender append for a moment and meet its fate, and ends it.
    fn try_once(&self, appender: &Appender, fate: Fate, random: &mut Random, tally: &mut Tally) {
        let qp = self.answer(fate.own_end(), random.random_range(0..20));
        for _ in 0..random.random_range(0..20) {
            std::thread::sleep(Duration::from_micros(random.random_range(0..1000)));
            tally.taken += self.take(qp);
        }
        match fate {
            Fate::Killed => appender.signal(Signal::KILL),
            Fate::Stopped => appender.signal(Signal::STOP),
            Fate::LosesItsQueuePair(_) | Fate::GoesOn => {}
        }
        quiesce(&*self.device, qp);
        tally.taken += self.take(qp);
        self.clear();
        appender.signal(Signal::CONT);
        std::thread::sleep(AFTERWARDS);
        tally.accepted += self.landed(qp);
        self.device
            .destroy_queue_pair(qp)
            .expect("the queue pair exists");
        tally.count(fate);
    }
}

/// Asks for quiet until it is promised. Returns the number of refusals.
fn quiesce(device: &dyn Device, qp: QueuePair) -> u64 {
    let mut not_yet = 0;
    let quiesced = wait("quiet", || {
        match device.poll_quiesce(qp, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(quiesced) => Some(quiesced),
            Poll::Pending => {
                not_yet += 1;
                None
            }
        }
    });
    quiesced.expect("the promise");
    not_yet
}

/// A receiver, and an appender that calls it.
fn stage(test: &str) -> Option<(Receiver, impl Fn() -> Appender)> {
    let names = devices_or_note(test)?;
    let address = free_address();
    let receiver = Receiver::new(names.last().expect("there is a device"), &address);
    Some((receiver, move || Appender::start(&names[0], &address)))
}

#[test]
fn no_request_of_an_appender_lands_after_it_was_quiesced() {
    let test = "no_request_of_an_appender_lands_after_it_was_quiesced";
    let Some((receiver, start)) = stage(test) else {
        return;
    };
    let tries = std::env::var(TRIES).map_or(TRIES_IN_CI, |tries| {
        tries.parse().expect("a number of tries")
    });
    println!("seed {SEED}");
    let random = &mut random_from_seed(SEED);
    let mut tally = Tally::default();
    let mut appender = start();
    for _ in 0..tries {
        let fate = Fate::draw(random);
        receiver.try_once(&appender, fate, random, &mut tally);
        if fate == Fate::Killed {
            appender = start();
        }
    }
    println!("{tally:?}");
    assert!(tally.taken > 0, "nothing was appended: {tally:?}");
    assert_eq!(tally.accepted, 0, "seed {SEED}: {tally:?}");
}

/// Shows that the test above can detect late bytes at all.
#[test]
fn a_stopped_appender_that_is_not_quiesced_continues() {
    let Some((receiver, start)) = stage("a_stopped_appender_that_is_not_quiesced_continues") else {
        return;
    };
    let appender = start();
    let qp = receiver.answer(OwnEnd::Never, 0);
    wait("a message", || (receiver.take(qp) > 0).then_some(()));
    appender.signal(Signal::STOP);
    std::thread::sleep(AFTERWARDS);
    receiver.take(qp);
    receiver.clear();
    appender.signal(Signal::CONT);
    wait("late bytes", || (receiver.landed(qp) > 0).then_some(()));
}

/// Needs the event of the last buffer: without it quiet comes only when the bound of half a second is over.
#[test]
fn quiet_of_a_queue_pair_with_shared_buffers_comes_with_the_event_of_its_last_buffer() {
    let test = "quiet_of_a_queue_pair_with_shared_buffers_comes_with_the_event_of_its_last_buffer";
    let Some((receiver, start)) = stage(test) else {
        return;
    };
    let appender = start();
    let took: Vec<Duration> = (0..5)
        .map(|_| {
            let qp = receiver.answer(OwnEnd::Never, 0);
            wait("a message", || (receiver.take(qp) > 0).then_some(()));
            let begun = Instant::now();
            quiesce(&*receiver.device, qp);
            let took = begun.elapsed();
            receiver.take(qp);
            receiver
                .device
                .destroy_queue_pair(qp)
                .expect("the queue pair exists");
            took
        })
        .collect();
    drop(appender);
    // A busy machine may be late, but not each time.
    let soon = took.iter().any(|took| *took < Duration::from_millis(300));
    assert!(soon, "{took:?}");
}

/// No completion, event or goodbye crosses a link that is down.
#[test]
fn quiet_comes_while_the_link_is_down_and_nothing_lands_after_the_link_is_up_again() {
    let test = "quiet_comes_while_the_link_is_down_and_nothing_lands_after_the_link_is_up_again";
    let Ok(link) = std::env::var(LINK) else {
        return note(test, &format!("no network interface is named in {LINK}"));
    };
    let Some((receiver, start)) = stage(test) else {
        return;
    };
    let appender = start();
    let qp = receiver.answer(OwnEnd::Never, 0);
    wait("a message", || (receiver.take(qp) > 0).then_some(()));
    set_link(&link, "down");
    quiesce(&*receiver.device, qp);
    receiver.take(qp);
    receiver.clear();
    set_link(&link, "up");
    std::thread::sleep(AFTERWARDS);
    assert_eq!(receiver.landed(qp), 0, "after the promise");
    drop(appender);
}

fn set_link(link: &str, state: &str) {
    let set = Command::new("ip")
        .args(["link", "set", link, state])
        .status();
    assert!(set.expect("ip runs").success(), "{link} goes {state}");
}

/// A NIC that lost its state returns nothing; a reset behind the queue pair's back simulates it.
#[test]
fn missing_completions_do_not_prevent_quiet() {
    let test = "missing_completions_do_not_prevent_quiet";
    let Some(names) = devices_or_note(test) else {
        return;
    };
    let open = |name: &String| VerbsDevice::open(options(name)).expect("the device can be opened");
    let (server, address) = (
        open(names.last().expect("there is a device")),
        free_address(),
    );
    let cq = server
        .create_completion_queue(64)
        .expect("a completion queue");
    server.listen(&address).expect("a free address");
    let client = connect(
        open(&names[0]),
        &*server,
        queue_pair_options(cq, None),
        &address,
    );
    let memory = server.allocate(4096, Access::NONE).expect("memory");
    let local = LocalSpan {
        region: memory,
        offset: 0,
        size: 64,
    };
    let buffer = ReceiveRequest { wr_id: 9, local };
    server
        .post_receive(ReceiveQueue::Own(client.there), &[buffer])
        .expect("the buffer is accepted");
    server.abandon();
    let not_yet = quiesce(&*server, client.there);
    assert!(not_yet > 0, "the completion was awaited");
    let mut ended = Vec::new();
    server.poll(cq, 8, &mut ended);
    let ended: Vec<_> = ended.iter().map(|end| (end.wr_id, end.status)).collect();
    assert_eq!(ended, [(9, Status::WorkRequestFlushed)]);
}
