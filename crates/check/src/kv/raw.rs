//! A connection with handmade messages of `docs/formats/protocol.md`, for clients that act in ways that the library
//! does not allow.

use std::rc::Rc;

use stonecast_fabric::{
    Access, ConnectionEvent, LocalSpan, MemoryRegion, Operation, Port, QueuePair, QueuePairOptions,
    ReceiveQueue, ReceiveRequest, RemoteAddress, Rkey, Status,
};
use stonecast_fabric_sim::Process;
use stonecast_log::{LogFormat, STAMP_SIZE};

use crate::kv::client::ADDRESS;

/// Bytes of a receive buffer: the longest answer.
const ANSWER_SIZE: u64 = 1024;
const RECEIVES: u64 = 8;
/// Bytes of an answer about access, and of one about a lease.
const ACCESS_SIZE: usize = 52;
const LEASE_SIZE: usize = 28;
/// Bytes that can be sent: more than a segment of the smallest size.
const SEND_SIZE: u64 = 1 << 19;
/// Start of a client's greeting.
const MAGIC: &[u8; 8] = b"stonecdk";

/// A raw connection to the server.
pub(crate) struct Raw {
    pub port: Rc<Port>,
    pub qp: QueuePair,
    pub welcome: Vec<u8>,
    /// The server's answer about access.
    access: Vec<u8>,
    receives: MemoryRegion,
    sends: MemoryRegion,
}

/// A place to which a record may be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub remote: RemoteAddress,
    pub position: u64,
    pub generation: u32,
    pub immediate: u32,
    pub slot: u8,
}

impl Spot {
    /// The last unit of the leased segment.
    pub fn at_the_end(self, segment_size: u64) -> Self {
        let skipped = segment_size - 64 - self.position % segment_size;
        Self {
            remote: RemoteAddress {
                address: self.remote.address + skipped,
                rkey: self.remote.rkey,
            },
            position: self.position + skipped,
            immediate: self.immediate + (skipped / 64) as u32,
            ..self
        }
    }
}

/// The reason why no connection was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoConnection {
    /// The server refused the connection, with this reason.
    Refused(String),
    /// A fault of the world prevented the connection.
    Broken,
}

impl Raw {
    /// Connects with `hello` as private data.
    pub async fn connect(process: &Process, hello: &[u8]) -> Result<Self, NoConnection> {
        let broken = |_| NoConnection::Broken;
        let port = process.port(256).map_err(broken)?;
        let device = port.device().clone();
        let receives = device
            .allocate(RECEIVES * ANSWER_SIZE, Access::NONE)
            .map_err(broken)?;
        let sends = device.allocate(SEND_SIZE, Access::NONE).map_err(broken)?;
        let options = QueuePairOptions {
            send_cq: port.send_cq(),
            receive_cq: port.receive_cq(),
            shared_receive_queue: None,
            windows: false,
            send_capacity: 64,
            receive_capacity: RECEIVES as u32,
            rnr_retry_count: 1000,
            rnr_retry_delay_ns: 100_000,
        };
        let qp = device.create_queue_pair(options).map_err(broken)?;
        let all: Vec<ReceiveRequest> = (0..RECEIVES)
            .map(|index| receive(receives, index))
            .collect();
        device
            .post_receive(ReceiveQueue::Own(qp), &all)
            .map_err(broken)?;
        device.connect(qp, ADDRESS, hello).map_err(broken)?;
        loop {
            port.activity().await;
            // A broken queue pair returns its receive buffers; nothing else arrives before the
            // first request.
            if port.take_received().is_some() {
                return Err(NoConnection::Broken);
            }
            match port.take_event() {
                Some(ConnectionEvent::Established { private_data, .. }) => {
                    let mut raw = Self {
                        port,
                        qp,
                        welcome: private_data,
                        access: Vec::new(),
                        receives,
                        sends,
                    };
                    raw.access = raw
                        .send(&request(6, 0, 0, 0))
                        .await
                        .ok_or(NoConnection::Broken)?;
                    let whole = raw.access.len() == 1 + ACCESS_SIZE && raw.access[0] == 0x42;
                    return if whole {
                        Ok(raw)
                    } else {
                        Err(NoConnection::Broken)
                    };
                }
                Some(ConnectionEvent::Rejected { reason, .. }) => {
                    return Err(NoConnection::Refused(reason));
                }
                Some(ConnectionEvent::Disconnected { .. }) => return Err(NoConnection::Broken),
                _ => {}
            }
        }
    }

    /// The greeting of a client of `version`.
    pub fn hello(version: u32) -> Vec<u8> {
        [MAGIC.as_slice(), &version.to_le_bytes(), &[0; 4]].concat()
    }

    /// A number of the acceptance.
    fn word(&self, offset: usize, size: usize) -> u64 {
        number(&self.welcome[offset..offset + size])
    }

    /// A number of the answer about access.
    fn access(&self, offset: usize, size: usize) -> u64 {
        number(&self.access[1 + offset..1 + offset + size])
    }

    /// Whether the client writes into staging memory, not into the log.
    pub fn is_staged(&self) -> bool {
        self.word(44, 4) > 0
    }

    /// The format of the log, from the server's acceptance.
    pub fn format(&self) -> LogFormat {
        let uuid = self.welcome[16..32].try_into().expect("16 bytes");
        LogFormat {
            uuid: u128::from_le_bytes(uuid),
            tag_key: self.word(48, 8),
            secret: None,
            segment_size: self.word(32, 8),
            segment_count: self.word(40, 4) as u32,
        }
    }

    /// The server's opening.
    pub fn opening(&self) -> u32 {
        self.word(12, 4) as u32
    }

    /// The log or the index, which are read-only.
    pub fn read_only(&self, log: bool) -> RemoteAddress {
        let (address, rkey) = if log { (16, 36) } else { (8, 32) };
        RemoteAddress {
            address: self.access(address, 8),
            rkey: Rkey(self.access(rkey, 4) as u32),
        }
    }

    /// Local memory with `bytes` in it.
    pub fn local(&self, bytes: &[u8]) -> LocalSpan {
        self.port.device().memory(self.sends).write(0, bytes);
        LocalSpan {
            region: self.sends,
            offset: 0,
            size: bytes.len() as u32,
        }
    }

    /// Posts an operation and waits for its status.
    pub async fn submit(&self, operation: Operation) -> Status {
        self.port
            .submit(self.qp, &[operation])
            .await
            .unwrap_or(Status::WorkRequestFlushed)
    }

    /// Posts an operation that the server answers, and waits for the answer; `None`: the connection ended.
    pub async fn ask(&self, operation: Operation) -> Option<Vec<u8>> {
        self.port.post(self.qp, [operation]).ok()?;
        loop {
            self.port.activity().await;
            if let Some(arrival) = self.port.take_received() {
                if arrival.status != Status::Success {
                    return None;
                }
                let mut bytes = vec![0; arrival.placement.size as usize];
                self.port
                    .device()
                    .memory(self.receives)
                    .read(arrival.wr_id * ANSWER_SIZE, &mut bytes);
                let again = [receive(self.receives, arrival.wr_id)];
                self.port
                    .device()
                    .post_receive(ReceiveQueue::Own(self.qp), &again)
                    .ok()?;
                return Some(bytes);
            }
            if matches!(
                self.port.take_event(),
                Some(ConnectionEvent::Disconnected { .. })
            ) {
                return None;
            }
        }
    }

    /// Sends a message that the server answers.
    pub async fn send(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.ask(Operation::Send {
            local: self.local(bytes),
        })
        .await
    }

    /// A place for a record: leased, or in staging memory.
    pub async fn spot(&self, size: u32) -> Option<Spot> {
        if self.is_staged() {
            let remote = RemoteAddress {
                address: self.access(24, 8),
                rkey: Rkey(self.access(40, 4) as u32),
            };
            return Some(Spot {
                remote,
                position: 1 << 62,
                generation: 0,
                immediate: 0,
                slot: 0,
            });
        }
        let answer = self.send(&request(1, 0, size, 0)).await?;
        if answer.first() != Some(&0x40) || answer.len() != 1 + LEASE_SIZE {
            return None;
        }
        let word = |offset: usize| number(&answer[1 + offset..5 + offset]) as u32;
        let (slot, segment, generation, unit) = (word(0), word(4), word(8), word(12));
        let position = u64::from(segment) * self.word(32, 8) + u64::from(unit) * 64;
        Some(Spot {
            remote: RemoteAddress {
                address: self.access(16, 8) + position,
                rkey: Rkey(word(24)),
            },
            position,
            generation,
            immediate: slot << 24 | unit,
            slot: slot as u8,
        })
    }

    /// Writes `record`, without its stamp, to `spot`, notifies the server, and waits for its
    /// answer.
    pub async fn put(&self, spot: &Spot, record: &[u8]) -> Option<Vec<u8>> {
        let local = self.local(&record[STAMP_SIZE..]);
        let remote = RemoteAddress {
            address: spot.remote.address + STAMP_SIZE as u64,
            rkey: spot.remote.rkey,
        };
        self.ask(Operation::WriteWithImmediate {
            local,
            remote,
            immediate: spot.immediate,
        })
        .await
    }

    /// Ends the connection.
    pub fn close(self) {
        let _ = self.port.device().disconnect(self.qp);
        let _ = self.port.destroy_queue_pair(self.qp);
    }
}

fn receive(region: MemoryRegion, index: u64) -> ReceiveRequest {
    let local = LocalSpan {
        region,
        offset: index * ANSWER_SIZE,
        size: ANSWER_SIZE as u32,
    };
    ReceiveRequest {
        wr_id: index,
        local,
    }
}

/// A message without a key: kind, detail, size, token.
pub(crate) fn request(kind: u8, detail: u8, size: u32, token: u64) -> Vec<u8> {
    let mut bytes = vec![kind, detail, 0, 0];
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&token.to_le_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes
}

/// A little-endian number.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
