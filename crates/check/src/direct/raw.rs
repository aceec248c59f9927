//! A connection to the server that speaks its messages by hand, as `docs/formats/protocol.md` describes them: for clients
//! that do what the library does not.

use std::rc::Rc;

use stonecast_fabric::{
    Access, ConnectionEvent, LocalSpan, MemoryRegion, Operation, Port, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest,
    RemoteAddress, Rkey, Status,
};
use stonecast_fabric_sim::Process;
use stonecast_log::LogFormat;

use crate::direct::client::ADDRESS;

/// Bytes of a receive buffer: the longest answer.
const ANSWER_SIZE: u64 = 1024;
const RECEIVES: u64 = 8;
/// Bytes that can be sent.
const SEND_SIZE: u64 = 1 << 16;
/// What a client says first.
const MAGIC: &[u8; 8] = b"stonecdk";

/// See the module documentation.
pub(crate) struct Raw {
    pub port: Rc<Port>,
    pub qp: QueuePair,
    pub welcome: Vec<u8>,
    receives: MemoryRegion,
    sends: MemoryRegion,
}

/// Where a record may be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub remote: RemoteAddress,
    pub position: u64,
    pub generation: u32,
    pub immediate: u32,
    pub slot: u8,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoConnection {
    /// The server said so.
    Refused(String),
    /// The surroundings are as they are.
    Broken,
}

impl Raw {
    /// Connects with `hello` as private data.
    pub async fn connect(process: &Process, hello: &[u8]) -> Result<Self, NoConnection> {
        let broken = |_| NoConnection::Broken;
        let port = process.port(256).map_err(broken)?;
        let device = port.device().clone();
        let receives = device.allocate(RECEIVES * ANSWER_SIZE, Access::NONE).map_err(broken)?;
        let sends = device.allocate(SEND_SIZE, Access::NONE).map_err(broken)?;
        let options = QueuePairOptions {
            send_cq: port.send_cq(),
            receive_cq: port.receive_cq(),
            shared_receive_queue: None,
            send_capacity: 64,
            receive_capacity: RECEIVES as u32,
            rnr_retry_count: 1000,
            rnr_retry_delay_ns: 100_000,
        };
        let qp = device.create_queue_pair(options).map_err(broken)?;
        let all: Vec<ReceiveRequest> = (0..RECEIVES).map(|index| receive(receives, index)).collect();
        device.post_receive(ReceiveQueue::Own(qp), &all).map_err(broken)?;
        device.connect(qp, ADDRESS, hello).map_err(broken)?;
        loop {
            port.activity().await;
            match port.take_event() {
                Some(ConnectionEvent::Established { private_data, .. }) => {
                    return Ok(Self { port, qp, welcome: private_data, receives, sends });
                }
                Some(ConnectionEvent::Rejected { reason, .. }) => return Err(NoConnection::Refused(reason)),
                Some(ConnectionEvent::Disconnected { .. }) => return Err(NoConnection::Broken),
                _ => {}
            }
        }
    }

    /// What a client of `version` says.
    pub fn hello(version: u32) -> Vec<u8> {
        [MAGIC.as_slice(), &version.to_le_bytes(), &[0; 4]].concat()
    }

    /// A number of the acceptance.
    pub fn word(&self, offset: usize, size: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.welcome[offset..offset + size]);
        u64::from_le_bytes(bytes)
    }

    /// What the server said of its log.
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

    /// The server's epoch.
    pub fn epoch(&self) -> u32 {
        self.word(44, 4) as u32
    }

    /// The index (64, 80) or the log (64 + 8, 84): read-only to everybody.
    pub fn read_only(&self, log: bool) -> RemoteAddress {
        let (address, rkey) = if log { (64, 84) } else { (56, 80) };
        RemoteAddress { address: self.word(address, 8), rkey: Rkey(self.word(rkey, 4) as u32) }
    }

    /// Local memory with `bytes` in it.
    pub fn local(&self, bytes: &[u8]) -> LocalSpan {
        self.port.device().memory(self.sends).write(0, bytes);
        LocalSpan { region: self.sends, offset: 0, size: bytes.len() as u32 }
    }

    /// Posts an operation, and waits for its status.
    pub async fn submit(&self, operation: Operation) -> Status {
        self.port.submit(self.qp, &[operation]).await.unwrap_or(Status::WorkRequestFlushed)
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
                self.port.device().memory(self.receives).read(arrival.wr_id * ANSWER_SIZE, &mut bytes);
                let again = [receive(self.receives, arrival.wr_id)];
                self.port.device().post_receive(ReceiveQueue::Own(self.qp), &again).ok()?;
                return Some(bytes);
            }
            if matches!(self.port.take_event(), Some(ConnectionEvent::Disconnected { .. })) {
                return None;
            }
        }
    }

    /// Sends a message that the server answers.
    pub async fn send(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.ask(Operation::Send { local: self.local(bytes) }).await
    }

    /// A place for a record: leased, or in staging memory.
    pub async fn spot(&self, size: u32) -> Option<Spot> {
        let staging = self.word(92, 4);
        if staging > 0 {
            let remote = RemoteAddress { address: self.word(72, 8), rkey: Rkey(self.word(88, 4) as u32) };
            return Some(Spot { remote, position: 1 << 62, generation: 0, immediate: 0, slot: 0 });
        }
        let answer = self.send(&request(1, 0, size, 0)).await?;
        let word = |offset: usize| u32::from_le_bytes(answer[1 + offset..5 + offset].try_into().expect("4 bytes"));
        if answer.first() != Some(&0x40) || answer.len() < 29 {
            return None;
        }
        let (slot, segment, generation, unit) = (word(0), word(4), word(8), word(12));
        let base = u64::from_le_bytes(answer[21..29].try_into().expect("8 bytes"));
        let start = u64::from(unit) * 64;
        Some(Spot {
            remote: RemoteAddress { address: base + start, rkey: Rkey(word(16)) },
            position: u64::from(segment) * self.word(32, 8) + start,
            generation,
            immediate: slot << 24 | unit,
            slot: slot as u8,
        })
    }

    /// Writes `record` to `spot` and tells the server, which answers.
    pub async fn put(&self, spot: &Spot, record: &[u8]) -> Option<Vec<u8>> {
        let local = self.local(record);
        self.ask(Operation::WriteWithImmediate { local, remote: spot.remote, immediate: spot.immediate }).await
    }

    /// Ends the connection.
    pub fn close(self) {
        let _ = self.port.device().disconnect(self.qp);
        let _ = self.port.destroy_queue_pair(self.qp);
    }
}

fn receive(region: MemoryRegion, index: u64) -> ReceiveRequest {
    let local = LocalSpan { region, offset: index * ANSWER_SIZE, size: ANSWER_SIZE as u32 };
    ReceiveRequest { wr_id: index, local }
}

/// A message without a key: kind, detail, size, token.
pub(crate) fn request(kind: u8, detail: u8, size: u32, token: u64) -> Vec<u8> {
    let mut bytes = vec![kind, detail, 0, 0];
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&token.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes
}
