//! An appender in a process of its own: the test binary runs itself again and sends batch after batch to any receiver
//! that accepts.

use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use rustix::process::{Pid, Signal, kill_process};
use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, LocalSpan, MemoryRegion, Operation,
    QueuePair, QueuePairOptions, RemoteAddress, Rkey, Status, WorkRequest,
};
use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};

use crate::pairs::wait;
use crate::world::options;

const ADDRESS: &str = "STONECAST_TEST_ADDRESS";
const DEVICE: &str = "STONECAST_TEST_DEVICE";

/// Bytes of a message, and messages of one batch.
pub const MESSAGE: u32 = 64;
const MESSAGES: usize = 7;
/// Bytes of the WRITE that ends a batch: many packets, so that it can be interrupted in the middle.
pub const WRITE: u32 = 1 << 15;
/// Requests of a batch, and batches that may be outstanding.
const BATCH: usize = MESSAGES + 1;
const AHEAD: usize = 2;
/// A queue pair needs at least one receive buffer.
const RECEIVES: u32 = 1;

/// The appender's own ways to end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OwnEnd {
    /// The appender does not end it.
    Never,
    /// The queue pair enters the error state.
    Failed,
    /// The queue pair is destroyed.
    Destroyed,
    /// All its queue pairs are reset, without a goodbye.
    Reset,
}

/// The receiver's orders to an appender, sent with the acceptance.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// The destination of WRITEs.
    pub place: RemoteAddress,
    pub end: OwnEnd,
    /// Batches that are posted before the end.
    pub batches: u32,
}

impl Orders {
    pub fn encode(&self) -> Vec<u8> {
        [
            self.place.address.to_le_bytes().as_slice(),
            &self.place.rkey.0.to_le_bytes(),
            &[self.end as u8],
            &self.batches.to_le_bytes(),
        ]
        .concat()
    }

    fn decode(told: &[u8]) -> Self {
        let number = |at: usize| {
            u32::from_le_bytes(told[at..at + 4].try_into().expect("four bytes of a number"))
        };
        let ends = [
            OwnEnd::Never,
            OwnEnd::Failed,
            OwnEnd::Destroyed,
            OwnEnd::Reset,
        ];
        Self {
            place: RemoteAddress {
                address: u64::from_le_bytes(told[..8].try_into().expect("an address")),
                rkey: Rkey(number(8)),
            },
            end: ends[usize::from(told[12])],
            batches: number(13),
        }
    }
}

/// The process of an appender; killed when dropped.
pub struct Appender(Child);

impl Appender {
    /// Starts an appender on the device `name`, which calls `address`.
    pub fn start(name: &str, address: &str) -> Self {
        let binary = std::env::current_exe().expect("the test binary has a path");
        let child = Command::new(binary)
            .args(["--ignored", "--exact", "appender::appends_again_and_again"])
            .args(["--nocapture", "--test-threads=1"])
            .env(ADDRESS, address)
            .env(DEVICE, name)
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("the test binary runs again"))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("a child can be signalled");
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // Fails if the appender has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test but the other process of the tests.
#[test]
#[ignore = "the tests of quiescing start it"]
fn appends_again_and_again() {
    let address = std::env::var(ADDRESS).expect("the test passes its address");
    let name = std::env::var(DEVICE).expect("the test names the device");
    loop {
        let sender = Sender::new(&name);
        while sender.appends_to(&address) {}
    }
}

/// The sending side.
struct Sender {
    device: Rc<VerbsDevice>,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

impl Sender {
    fn new(name: &str) -> Self {
        // 33 ms: a packet is retransmitted while the receiver is still checking.
        let device = VerbsDevice::open(VerbsOptions {
            retransmission_timeout: 13,
            ..options(name)
        })
        .expect("the device can be opened");
        let cq = device
            .create_completion_queue((BATCH * AHEAD) as u32 + RECEIVES)
            .expect("a completion queue");
        let memory = device
            .allocate(u64::from(WRITE), Access::NONE)
            .expect("memory");
        device.memory(memory).write(0, &[7; WRITE as usize]);
        Self { device, cq, memory }
    }

    /// Appends until the connection ends. Returns false if the device is unusable afterwards.
    fn appends_to(&self, address: &str) -> bool {
        let (qp, orders) = self.call(address);
        let batch = self.batch(orders.place);
        let (mut posted, mut under_way, mut is_open) = (0, 0, true);
        while is_open {
            if posted == orders.batches {
                match orders.end {
                    OwnEnd::Never => {}
                    OwnEnd::Failed => self.device.disconnect(qp).expect("the queue pair exists"),
                    OwnEnd::Destroyed => break,
                    OwnEnd::Reset => {
                        self.device.abandon();
                        return false;
                    }
                }
            }
            self.device.post_send(qp, &batch).expect("there is room");
            posted += 1;
            under_way += BATCH;
            let mut sent = Vec::new();
            wait("room for a batch", || {
                self.device.poll(self.cq, BATCH, &mut sent);
                (under_way - sent.len() <= BATCH * (AHEAD - 1)).then_some(())
            });
            under_way -= sent.len();
            is_open = sent.iter().all(|sent| sent.status == Status::Success);
        }
        self.device
            .destroy_queue_pair(qp)
            .expect("the queue pair exists");
        true
    }

    /// Calls until the receiver accepts.
    fn call(&self, address: &str) -> (QueuePair, Orders) {
        let qp = self
            .device
            .create_queue_pair(QueuePairOptions {
                send_cq: self.cq,
                receive_cq: self.cq,
                shared_receive_queue: None,
                windows: false,
                send_capacity: (BATCH * AHEAD) as u32,
                receive_capacity: RECEIVES,
                rnr_retry_count: 1_000_000,
                rnr_retry_delay_ns: 1_000_000,
            })
            .expect("a queue pair");
        let mut is_out = false;
        let told = wait("an accepting receiver", || {
            if !is_out {
                let started = self.device.connect(qp, address, b"");
                started.expect("connecting starts");
                is_out = true;
            }
            match self.device.poll_connection()? {
                ConnectionEvent::Established { private_data, .. } => Some(private_data),
                ConnectionEvent::Rejected { .. } => {
                    is_out = false;
                    None
                }
                _ => None,
            }
        });
        (qp, Orders::decode(&told))
    }

    /// Messages, and a WRITE to `place`.
    fn batch(&self, place: RemoteAddress) -> Vec<WorkRequest> {
        let local = |size| LocalSpan {
            region: self.memory,
            offset: 0,
            size,
        };
        let send = Operation::Send {
            local: local(MESSAGE),
        };
        let write = Operation::Write {
            local: local(WRITE),
            remote: place,
        };
        std::iter::repeat_n(send, MESSAGES)
            .chain([write])
            .map(|operation| WorkRequest {
                wr_id: 1,
                operation,
                signalled: true,
                fence: false,
            })
            .collect()
    }
}
