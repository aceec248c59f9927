//! Appends of several senders to one receiver over shared memory, beside a plain copy loop.
//!
//! ```text
//!   sender, of four:   post a batch of SENDs; poll one completion; again        receiver: asleep
//!   plain copies:      place := counter += 64; copy 64 bytes there; again
//! ```
//!
//! Both fill one buffer with messages of four threads. The receiver posts the buffer before a round and takes the
//! buffer back after the round; in between, its thread waits for the senders and touches neither device nor memory.

use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, DeviceError, LocalSpan, MemoryRegion,
    MultiPacketOptions, Operation, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest,
    SharedReceiveQueue, SharedReceiveQueueOptions, WorkRequest,
};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::{MappedRegion, Region, Sealing};

/// The number of senders.
pub const SENDERS: usize = 4;
/// The size of a message in bytes.
pub const MESSAGE: u32 = 64;
/// The number of messages of all senders in a round, which fill the buffer.
pub const MESSAGES: u64 = SENDERS as u64 * OF_ONE;
/// The number of messages of one sender in a round.
const OF_ONE: u64 = 1 << 16;
const BUFFER: u64 = MESSAGES * MESSAGE as u64;
/// The number of messages that are posted together.
const BATCH: u64 = 64;

/// The times at which a sender began and ended a round.
type Times = (Instant, Instant);

/// Returns the time from the first sender's beginning to the last sender's end.
fn span(times: &[Times]) -> Duration {
    let first = times.iter().map(|times| times.0).min();
    let last = times.iter().map(|times| times.1).max();
    first
        .zip(last)
        .map_or(Duration::ZERO, |(first, last)| last - first)
}

/// A receiver and its senders, connected.
pub struct Appends {
    receiver: Receiver,
    /// A message starts a round of one sender; a closed channel ends the sender's thread.
    starts: Vec<mpsc::Sender<()>>,
    times: mpsc::Receiver<Result<Times, DeviceError>>,
    senders: Vec<JoinHandle<()>>,
}

impl Appends {
    /// Connects the senders, each with a device and a thread of its own. The socket lies in `folder`.
    pub fn prepare(folder: &Path) -> Result<Self, DeviceError> {
        let address = format!("shm:{}", folder.join("appends").display());
        let receiver = Receiver::listen(&address)?;
        let together = Arc::new(Barrier::new(SENDERS));
        let (told, times) = mpsc::channel();
        let (mut starts, mut senders) = (Vec::new(), Vec::new());
        for _ in 0..SENDERS {
            let (start, started) = mpsc::channel();
            let (told, address, together) = (told.clone(), address.clone(), together.clone());
            starts.push(start);
            senders.push(thread::spawn(move || {
                if let Err(error) = send_rounds(&address, &started, &together, &told) {
                    let _nobody_asks = told.send(Err(error));
                }
            }));
        }
        receiver.accept_all()?;
        Ok(Self {
            receiver,
            starts,
            times,
            senders,
        })
    }

    /// Lets the senders fill the buffer once.
    pub fn round(&self) -> Result<Duration, DeviceError> {
        for start in &self.starts {
            start.send(()).expect("a sender that failed has said so");
        }
        let times: Result<Vec<_>, _> = (0..SENDERS)
            .map(|_| self.times.recv().expect("senders live as long as this"))
            .collect();
        let elapsed = span(&times?);
        self.receiver.take_back()?;
        Ok(elapsed)
    }
}

impl Drop for Appends {
    fn drop(&mut self) {
        self.starts.clear();
        for sender in self.senders.drain(..) {
            let _panicked = sender.join();
        }
    }
}

struct Receiver {
    device: Rc<ShmDevice>,
    cq: CompletionQueue,
    queue: SharedReceiveQueue,
    memory: MemoryRegion,
}

impl Receiver {
    fn listen(address: &str) -> Result<Self, DeviceError> {
        let device = ShmDevice::new(ShmOptions::default())?;
        device.listen(address)?;
        let cq = device.create_completion_queue(64)?;
        let queue = device.create_shared_receive_queue(SharedReceiveQueueOptions {
            capacity: 4,
            multi_packet: Some(MultiPacketOptions::silent(MESSAGE)),
            in_order: false,
        })?;
        let memory = device.allocate(BUFFER, Access::NONE)?;
        let receiver = Self {
            device,
            cq,
            queue,
            memory,
        };
        receiver.post()?;
        Ok(receiver)
    }

    fn post(&self) -> Result<(), DeviceError> {
        let local = LocalSpan {
            region: self.memory,
            offset: 0,
            size: BUFFER as u32,
        };
        let buffer = ReceiveRequest { wr_id: 0, local };
        self.device
            .post_receive(ReceiveQueue::Shared(self.queue), &[buffer])
    }

    fn accept_all(&self) -> Result<(), DeviceError> {
        let mut established = 0;
        while established < SENDERS {
            match self.device.poll_connection() {
                Some(ConnectionEvent::Request { request, .. }) => {
                    let qp = queue_pair(&self.device, self.cq, Some(self.queue))?;
                    self.device.accept(request, qp, b"")?;
                }
                Some(ConnectionEvent::Established { .. }) => established += 1,
                _ => thread::sleep(Duration::from_micros(100)),
            }
        }
        Ok(())
    }

    /// Takes the full buffer back and posts the buffer again.
    fn take_back(&self) -> Result<(), DeviceError> {
        let mut consumed = Vec::new();
        while consumed.is_empty() {
            self.device.poll(self.cq, 64, &mut Vec::new());
            self.device.poll_consumed(self.queue, &mut consumed);
        }
        self.post()
    }
}

fn queue_pair(
    device: &ShmDevice,
    cq: CompletionQueue,
    shared_receive_queue: Option<SharedReceiveQueue>,
) -> Result<QueuePair, DeviceError> {
    device.create_queue_pair(QueuePairOptions {
        send_cq: cq,
        receive_cq: cq,
        shared_receive_queue,
        windows: false,
        send_capacity: BATCH as u32,
        receive_capacity: 1,
        rnr_retry_count: 7,
        rnr_retry_delay_ns: 1_000_000,
    })
}

/// The work of a sender's thread: connects, and fills its part of the buffer at each message of `starts`.
fn send_rounds(
    address: &str,
    started: &mpsc::Receiver<()>,
    together: &Barrier,
    told: &mpsc::Sender<Result<Times, DeviceError>>,
) -> Result<(), DeviceError> {
    let device = ShmDevice::new(ShmOptions::default())?;
    let cq = device.create_completion_queue(BATCH as u32)?;
    let qp = queue_pair(&device, cq, None)?;
    device.connect(qp, address, b"")?;
    while !matches!(
        device.poll_connection(),
        Some(ConnectionEvent::Established { .. })
    ) {
        thread::sleep(Duration::from_micros(100));
    }
    let batch = batch(&device)?;
    let mut completions = Vec::new();
    while started.recv().is_ok() {
        together.wait();
        let begun = Instant::now();
        for _ in 0..OF_ONE / BATCH {
            device.post_send(qp, &batch)?;
            while completions.is_empty() {
                device.poll(cq, BATCH as usize, &mut completions);
            }
            completions.clear();
        }
        let _nobody_asks = told.send(Ok((begun, Instant::now())));
    }
    Ok(())
}

/// A batch of messages, of which the last one is signalled.
fn batch(device: &ShmDevice) -> Result<Vec<WorkRequest>, DeviceError> {
    let region = device.allocate(BATCH * u64::from(MESSAGE), Access::NONE)?;
    Ok((0..BATCH)
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
        .collect())
}

/// The yardstick: threads that take their places from one counter and copy their messages there.
pub struct PlainCopies {
    memory: MappedRegion,
}

impl PlainCopies {
    /// Makes the buffer, with all its pages.
    pub fn prepare() -> std::io::Result<Self> {
        let memory = MappedRegion::create_memory("stonecast-plain-copies", BUFFER, Sealing::None)?;
        memory.write(0, &vec![1; BUFFER as usize]);
        Ok(Self { memory })
    }

    /// Fills the buffer once.
    pub fn round(&self) -> Duration {
        let (counter, together) = (AtomicU64::new(0), Barrier::new(SENDERS));
        let copy = || {
            let message = [7; MESSAGE as usize];
            together.wait();
            let begun = Instant::now();
            for _ in 0..OF_ONE {
                let place = counter.fetch_add(u64::from(MESSAGE), Ordering::Relaxed);
                self.memory.write(place, &message);
            }
            (begun, Instant::now())
        };
        let times: Vec<_> = thread::scope(|scope| {
            let copiers: Vec<_> = (0..SENDERS).map(|_| scope.spawn(copy)).collect();
            copiers
                .into_iter()
                .map(|copier| copier.join().expect("copying does not panic"))
                .collect()
        });
        span(&times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fill_the_buffer_again_and_again() {
        let folder = tempfile::tempdir().unwrap();
        let appends = Appends::prepare(folder.path()).unwrap();
        for _ in 0..3 {
            assert!(appends.round().unwrap() > Duration::ZERO);
        }
        assert!(PlainCopies::prepare().unwrap().round() > Duration::ZERO);
    }
}
