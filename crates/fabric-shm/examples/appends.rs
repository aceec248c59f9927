//! What an append costs beside a plain copy loop: senders put messages of 64 bytes next to each other into one buffer of a
//! receiver that sleeps.
//!
//! `cargo run --release -p stonecast-fabric-shm --example appends`

use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, LocalSpan, MemoryRegion, MultiPacketOptions,
    Operation, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest, SharedReceiveQueue,
    SharedReceiveQueueOptions, WorkRequest,
};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::{MappedRegion, Region, Sealing};

const SENDERS: usize = 4;
const MESSAGE: u32 = 64;
/// Messages of one sender in one round; all senders together fill the buffer.
const MESSAGES: u64 = 1 << 16;
const BUFFER: u64 = SENDERS as u64 * MESSAGES * MESSAGE as u64;
/// Messages that are posted with one doorbell.
const BATCH: u64 = 64;
const ROUNDS: usize = 25;
/// Rounds before, in which each sender maps the buffer's pages.
const WARM_UP: usize = 10;

fn main() {
    let folder = std::env::temp_dir().join(format!("stonecast-appends-{}", std::process::id()));
    let receiver = Receiver::new(&folder);
    let (start, end) = (Barrier::new(SENDERS + 1), Barrier::new(SENDERS + 1));
    thread::scope(|scope| {
        let (spans, measured) = mpsc::channel();
        for _ in 0..SENDERS {
            let (spans, folder, start, end) = (spans.clone(), &folder, &start, &end);
            thread::Builder::new()
                .name("sender".into())
                .spawn_scoped(scope, move || send_rounds(folder, &spans, start, end))
                .expect("a thread");
        }
        receiver.accept();
        let plain = Plain::new();
        let mut ratios = Vec::new();
        for round in 0..WARM_UP + ROUNDS {
            let appends = measure(&start, &end, &measured);
            receiver.take_back();
            let copies = plain.round();
            let rate =
                |time: Duration| BUFFER as f64 / f64::from(MESSAGE) / time.as_secs_f64() / 1e6;
            println!(
                "appends {:.1} M/s, plain copies {:.1} M/s",
                rate(appends),
                rate(copies)
            );
            if round < WARM_UP {
                continue;
            }
            ratios.push(copies.as_secs_f64() / appends.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "median ratio {:.2}, from {:.2} to {:.2}",
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    });
}

/// From the first sender's start to the last one's end.
fn measure(
    start: &Barrier,
    end: &Barrier,
    measured: &mpsc::Receiver<(Instant, Instant)>,
) -> Duration {
    start.wait();
    end.wait();
    let spans: Vec<_> = (0..SENDERS)
        .map(|_| measured.recv().expect("a sender"))
        .collect();
    span(&spans)
}

fn span(spans: &[(Instant, Instant)]) -> Duration {
    let first = spans.iter().map(|span| span.0).min().expect("senders");
    let last = spans.iter().map(|span| span.1).max().expect("senders");
    last - first
}

struct Receiver {
    device: Rc<ShmDevice>,
    cq: CompletionQueue,
    queue: SharedReceiveQueue,
    memory: MemoryRegion,
}

impl Receiver {
    fn new(folder: &Path) -> Self {
        let device = ShmDevice::new(ShmOptions::default()).expect("a device");
        device
            .listen(&format!("shm:{}", folder.display()))
            .expect("the address is free");
        let cq = device
            .create_completion_queue(64)
            .expect("a completion queue");
        let queue = device
            .create_shared_receive_queue(SharedReceiveQueueOptions {
                capacity: 4,
                multi_packet: Some(MultiPacketOptions::silent(MESSAGE)),
            })
            .expect("a queue");
        let memory = device.allocate(BUFFER, Access::NONE).expect("memory");
        let receiver = Self {
            device,
            cq,
            queue,
            memory,
        };
        receiver.post();
        receiver
    }

    fn post(&self) {
        let local = LocalSpan {
            region: self.memory,
            offset: 0,
            size: BUFFER as u32,
        };
        let buffer = ReceiveRequest { wr_id: 1, local };
        self.device
            .post_receive(ReceiveQueue::Shared(self.queue), &[buffer])
            .expect("room");
    }

    fn accept(&self) {
        let mut established = 0;
        while established < SENDERS {
            match self.device.poll_connection() {
                Some(ConnectionEvent::Request { request, .. }) => {
                    let qp = queue_pair(&self.device, self.cq, Some(self.queue));
                    self.device.accept(request, qp, b"").expect("a request");
                }
                Some(ConnectionEvent::Established { .. }) => established += 1,
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Takes the full buffer and gives it to the senders again.
    fn take_back(&self) {
        let mut consumed = Vec::new();
        while consumed.is_empty() {
            self.device.poll(self.cq, 64, &mut Vec::new());
            self.device.poll_consumed(self.queue, &mut consumed);
        }
        self.post();
    }
}

fn queue_pair(
    device: &ShmDevice,
    cq: CompletionQueue,
    shared_receive_queue: Option<SharedReceiveQueue>,
) -> QueuePair {
    let options = QueuePairOptions {
        send_cq: cq,
        receive_cq: cq,
        shared_receive_queue,
        windows: false,
        send_capacity: 64,
        receive_capacity: 1,
        rnr_retry_count: 7,
        rnr_retry_delay_ns: 1_000_000,
    };
    device.create_queue_pair(options).expect("a queue pair")
}

fn send_rounds(
    folder: &Path,
    spans: &mpsc::Sender<(Instant, Instant)>,
    start: &Barrier,
    end: &Barrier,
) {
    let device = ShmDevice::new(ShmOptions::default()).expect("a device");
    let cq = device
        .create_completion_queue(64)
        .expect("a completion queue");
    let qp = queue_pair(&device, cq, None);
    device
        .connect(qp, &format!("shm:{}", folder.display()), b"")
        .expect("connecting starts");
    while !matches!(
        device.poll_connection(),
        Some(ConnectionEvent::Established { .. })
    ) {
        thread::sleep(Duration::from_millis(1));
    }
    let region = device
        .allocate(BATCH * u64::from(MESSAGE), Access::NONE)
        .expect("memory");
    device
        .memory(region)
        .write(0, &[7; BATCH as usize * MESSAGE as usize]);
    let batch: Vec<_> = (0..BATCH)
        .map(|index| WorkRequest {
            wr_id: index,
            operation: Operation::Send {
                local: LocalSpan {
                    region,
                    offset: index * u64::from(MESSAGE),
                    size: MESSAGE,
                },
            },
            signalled: index + 1 == BATCH,
            fence: false,
        })
        .collect();
    let mut completions = Vec::new();
    for _ in 0..WARM_UP + ROUNDS {
        start.wait();
        let begun = Instant::now();
        for _ in 0..MESSAGES / BATCH {
            device.post_send(qp, &batch).expect("room");
            while completions.is_empty() {
                device.poll(cq, 64, &mut completions);
            }
            completions.clear();
        }
        spans
            .send((begun, Instant::now()))
            .expect("somebody measures");
        end.wait();
    }
}

/// The yardstick: each thread takes the next place from a shared counter and copies its message there.
struct Plain {
    memory: MappedRegion,
}

impl Plain {
    fn new() -> Self {
        let memory = MappedRegion::create_memory("plain", BUFFER, Sealing::None).expect("memory");
        for offset in (0..BUFFER).step_by(4096) {
            memory.store(offset, 1);
        }
        Self { memory }
    }

    fn round(&self) -> Duration {
        let counter = AtomicU64::new(0);
        let start = Barrier::new(SENDERS);
        thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS)
                .map(|sender| {
                    let (counter, start, memory) = (&counter, &start, &self.memory);
                    thread::Builder::new()
                        .name("plain".into())
                        .spawn_scoped(scope, move || {
                            let message = [sender as u8; MESSAGE as usize];
                            start.wait();
                            let begun = Instant::now();
                            for _ in 0..MESSAGES {
                                let place =
                                    counter.fetch_add(u64::from(MESSAGE), Ordering::Relaxed);
                                memory.write(place, &message);
                            }
                            (begun, Instant::now())
                        })
                        .expect("a thread")
                })
                .collect();
            span(
                &senders
                    .into_iter()
                    .map(|sender| sender.join().expect("a sender"))
                    .collect::<Vec<_>>(),
            )
        })
    }
}
