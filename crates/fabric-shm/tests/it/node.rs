//! A device and the few calls that tests between processes need. A wait sleeps on the device's bell for much longer
//! than anything may take, so that a lost wake-up shows.

use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, LocalSpan, MemoryRegion, Operation, Park,
    QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest, RemoteAddress, Rkey,
    SharedReceiveQueue, WorkCompletion, WorkRequest,
};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

/// The time that anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than that time: a missed wake-up shows.
const SLEEP_NS: u64 = 60_000_000_000;
/// Bytes of a node's buffer.
pub const BUFFER_SIZE: u64 = 1 << 16;

pub struct Node {
    pub device: Rc<ShmDevice>,
    pub buffer: MemoryRegion,
    pub cq: CompletionQueue,
    /// Completions and events that no step has requested yet.
    pub completions: Vec<WorkCompletion>,
    pub events: Vec<ConnectionEvent>,
}

impl Node {
    pub fn new(options: ShmOptions) -> Self {
        let device = ShmDevice::new(options).expect("a device");
        let access = Access::REMOTE_READ
            .and(Access::REMOTE_WRITE)
            .and(Access::REMOTE_ATOMIC);
        let buffer = device.allocate(BUFFER_SIZE, access).expect("memory");
        let cq = device
            .create_completion_queue(1 << 16)
            .expect("a completion queue");
        Self {
            device,
            buffer,
            cq,
            completions: Vec::new(),
            events: Vec::new(),
        }
    }

    pub fn queue_pair(&self, shared_receive_queue: Option<SharedReceiveQueue>) -> QueuePair {
        let options = QueuePairOptions {
            send_cq: self.cq,
            receive_cq: self.cq,
            shared_receive_queue,
            windows: true,
            send_capacity: 64,
            receive_capacity: 64,
            rnr_retry_count: 1_000_000,
            rnr_retry_delay_ns: 1_000_000,
        };
        self.device
            .create_queue_pair(options)
            .expect("a queue pair")
    }

    /// Calls until a peer accepts; returns the queue pair and the peer's data.
    pub fn call(&mut self, address: &str) -> (QueuePair, Vec<u8>) {
        let qp = self.queue_pair(None);
        self.device
            .connect(qp, address, b"")
            .expect("connecting starts");
        loop {
            let event = self.event(|event| !matches!(event, ConnectionEvent::Request { .. }));
            match event {
                ConnectionEvent::Established { private_data, .. } => return (qp, private_data),
                ConnectionEvent::Rejected { .. } => {
                    std::thread::sleep(Duration::from_millis(1));
                    self.device
                        .connect(qp, address, b"")
                        .expect("connecting starts again");
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    /// Accepts the next caller with `qp`, and sends the place of the buffer.
    pub fn answer(&mut self, qp: QueuePair) {
        let request = self.event(|event| matches!(event, ConnectionEvent::Request { .. }));
        let ConnectionEvent::Request { request, .. } = request else {
            unreachable!("just matched")
        };
        let place = [
            self.buffer.address.to_le_bytes().as_slice(),
            &self.buffer.rkey.0.to_le_bytes(),
        ]
        .concat();
        self.device
            .accept(request, qp, &place)
            .expect("the request can be accepted");
        self.event(
            |event| matches!(event, ConnectionEvent::Established { qp: of, .. } if *of == qp),
        );
    }

    /// The next event that is `wanted`.
    pub fn event(&mut self, wanted: impl Fn(&ConnectionEvent) -> bool) -> ConnectionEvent {
        self.wait("an event", |node| {
            let position = node.events.iter().position(&wanted)?;
            Some(node.events.remove(position))
        })
    }

    /// The next completion.
    pub fn completion(&mut self) -> WorkCompletion {
        self.wait("a completion", |node| {
            (!node.completions.is_empty()).then(|| node.completions.remove(0))
        })
    }

    /// Collects the available completions and events.
    pub fn pump(&mut self) {
        self.device.poll(self.cq, usize::MAX, &mut self.completions);
        self.events
            .extend(std::iter::from_fn(|| self.device.poll_connection()));
    }

    /// Sleeps until `look` finds something.
    pub fn wait<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.pump();
            if let Some(found) = look(self) {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            self.device.park(SLEEP_NS);
        }
    }

    pub fn post(&self, qp: QueuePair, operation: Operation, signalled: bool) {
        let request = WorkRequest {
            wr_id: 1,
            operation,
            signalled,
            fence: false,
        };
        self.device
            .post_send(qp, &[request])
            .expect("the batch is accepted");
    }

    pub fn receive(&self, queue: ReceiveQueue, wr_id: u64, offset: u64, size: u32) {
        let request = ReceiveRequest {
            wr_id,
            local: self.local(offset, size),
        };
        self.device
            .post_receive(queue, &[request])
            .expect("the buffer is accepted");
    }

    pub fn local(&self, offset: u64, size: u32) -> LocalSpan {
        LocalSpan {
            region: self.buffer,
            offset,
            size,
        }
    }

    pub fn word(&self, offset: u64) -> u64 {
        self.device.memory(self.buffer).load(offset)
    }

    pub fn set_word(&self, offset: u64, value: u64) {
        self.device.memory(self.buffer).store(offset, value);
    }
}

/// The place `offset` in the buffer of an answer.
pub fn place(answer: &[u8], offset: u64) -> RemoteAddress {
    let address = u64::from_le_bytes(answer[..8].try_into().expect("8 bytes"));
    let rkey = u32::from_le_bytes(answer[8..12].try_into().expect("4 bytes"));
    RemoteAddress {
        address: address + offset,
        rkey: Rkey(rkey),
    }
}
