//! The client's side of a connection: one operation at a time.

use std::collections::VecDeque;
use std::rc::Rc;

use stonecast_fabric::{
    ConnectionEvent, LocalSpan, MemoryRegion, Operation, Port, ReadInto, ReceiveQueue,
    RemoteAddress, Rkey, Status,
};
use stonecast_session::{ConnectError, Endpoint, Greeting, Protocol, Queues, ReceiveBuffers, Side};

use crate::PublishedError;
use crate::geometry::Geometry;
use crate::hub::Hub;
use crate::message::Message;

/// Receive buffers of a client.
pub(crate) const CLIENT_RECEIVES: u32 = 32;
/// Entries of the completion queues that a client's port needs.
pub const CLIENT_COMPLETIONS: u32 = 64;
/// The most outstanding work requests of a client.
const SENDS: u32 = 16;
/// RNR retries: the server posts a buffer again as soon as it has read it.
const RNR_RETRY_COUNT: u32 = 60_000;
const RNR_RETRY_DELAY_NS: u64 = 10_000;
const WORDS: usize = 8;

/// The first bytes that clients and servers send. The papers specify no connections, and each design is compared on the
/// platform that its run declares, so neither side declares one.
pub(crate) const GREETING: Greeting = Greeting::of(Protocol {
    magic: *b"stonepub",
    name: "the published designs",
    version: 1,
});

/// The server's message to a client that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub geometry: Geometry,
    pub number: u32,
    pub memory_address: u64,
    pub memory_rkey: Rkey,
    pub request_address: u64,
    pub request_rkey: Rkey,
}

impl Welcome {
    pub fn encode(&self) -> Vec<u8> {
        let mut words = self.geometry.to_words().to_vec();
        words.extend([
            self.number.into(),
            self.memory_address,
            self.memory_rkey.0.into(),
        ]);
        words.extend([self.request_address, self.request_rkey.0.into()]);
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        GREETING.say(&words)
    }

    pub fn parse(said: &[u8]) -> Result<Self, PublishedError> {
        let bytes = GREETING
            .hear(Side::Server, said)
            .map_err(|mismatch| PublishedError::Connection(mismatch.to_string()))?;
        let (words, []) = bytes.as_chunks::<8>() else {
            return Err(PublishedError::Protocol("a welcome of another length"));
        };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (geometry, rest) = words
            .split_first_chunk::<WORDS>()
            .ok_or(PublishedError::Protocol("a short welcome"))?;
        let &[
            number,
            memory_address,
            memory_rkey,
            request_address,
            request_rkey,
        ] = rest
        else {
            return Err(PublishedError::Protocol("a welcome of another length"));
        };
        Ok(Self {
            geometry: Geometry::from_words(*geometry)?,
            number: number as u32,
            memory_address,
            memory_rkey: Rkey(memory_rkey as u32),
            request_address,
            request_rkey: Rkey(request_rkey as u32),
        })
    }
}

/// A client's connection.
pub(crate) struct Link {
    port: Rc<Port>,
    endpoint: Endpoint,
    pub welcome: Welcome,
    /// One area for READs, one for messages.
    local: MemoryRegion,
    area: u64,
    receives: ReceiveBuffers,
    arrived: VecDeque<Message>,
    gone: bool,
}

impl Link {
    /// Connects to the server at `address`.
    pub async fn connect(
        port: Rc<Port>,
        address: &str,
        slot_size: u64,
    ) -> Result<Self, PublishedError> {
        let endpoint = Endpoint::new(
            &port,
            Queues {
                send_capacity: SENDS,
                receive_capacity: CLIENT_RECEIVES,
                shared_receive_queue: None,
                windows: false,
                rnr_retry_count: RNR_RETRY_COUNT,
                rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
            },
        )?;
        let region = endpoint.allocate(u64::from(CLIENT_RECEIVES) * slot_size)?;
        let receives = ReceiveBuffers::new(region, slot_size as u32);
        let queue = ReceiveQueue::Own(endpoint.qp());
        receives.post_all(&**port.device(), queue, CLIENT_RECEIVES)?;
        let welcome = match endpoint.connect(address, &GREETING.say(b"")).await {
            Ok(said) => Welcome::parse(&said)?,
            Err(ConnectError::Device(error)) => return Err(error.into()),
            Err(other) => return Err(PublishedError::Connection(other.to_string())),
        };
        if slot_size < Hub::message_size(&welcome.geometry) {
            return Err(PublishedError::Protocol(
                "the store's values are longer than this client's buffers",
            ));
        }
        let area = slot_size.max(4096);
        let local = endpoint.allocate(2 * area)?;
        let (arrived, gone) = (VecDeque::new(), false);
        Ok(Self {
            port,
            endpoint,
            welcome,
            local,
            area,
            receives,
            arrived,
            gone,
        })
    }

    /// Copies `bytes` to the send area.
    fn stage(&self, bytes: &[u8]) -> LocalSpan {
        self.port
            .device()
            .memory(self.local)
            .write(self.area, bytes);
        LocalSpan {
            region: self.local,
            offset: self.area,
            size: bytes.len() as u32,
        }
    }

    /// The area for a READ of `size` bytes.
    fn scratch(&self, size: usize) -> LocalSpan {
        LocalSpan {
            region: self.local,
            offset: 0,
            size: size as u32,
        }
    }

    async fn submit(&self, operations: &[Operation]) -> Result<(), PublishedError> {
        match self.port.submit(self.endpoint.qp(), operations).await? {
            Status::Success => Ok(()),
            status => Err(PublishedError::Failed(status)),
        }
    }

    /// Sends a message without an answer.
    pub async fn tell(&self, message: &Message) -> Result<(), PublishedError> {
        let local = self.stage(&message.encode());
        self.submit(&[Operation::Send { local }]).await
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, bytes: &[u8]) -> Result<Message, PublishedError> {
        let local = self.stage(bytes);
        self.port
            .post(self.endpoint.qp(), [Operation::Send { local }])?;
        self.answer().await
    }

    /// Writes a request into this client's slot at the server and waits for the answer.
    pub async fn ask_by_write(&mut self, bytes: &[u8]) -> Result<Message, PublishedError> {
        let local = self.stage(bytes);
        let remote = RemoteAddress {
            address: self.welcome.request_address,
            rkey: self.welcome.request_rkey,
        };
        self.port.post(
            self.endpoint.qp(),
            [Operation::WriteWithImmediate {
                local,
                remote,
                immediate: self.welcome.number,
            }],
        )?;
        self.answer().await
    }

    /// A place in the server's persistent memory.
    pub fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.welcome.memory_address + offset,
            rkey: self.welcome.memory_rkey,
        }
    }

    /// Reads persistent memory of the server.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), PublishedError> {
        let scratch = self.scratch(into.len().next_multiple_of(8));
        let mut reads = [ReadInto {
            remote: self.remote(offset),
            into,
        }];
        match self
            .port
            .read(self.endpoint.qp(), &mut reads, scratch, None)
            .await?
        {
            Status::Success => Ok(()),
            status => Err(PublishedError::Failed(status)),
        }
    }

    /// Writes persistent memory of the server: complete when the server's NIC has the bytes.
    pub async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), PublishedError> {
        let local = self.stage(bytes);
        self.submit(&[Operation::Write {
            local,
            remote: self.remote(offset),
        }])
        .await
    }

    /// Writes, and reads the last byte back, which pushes the write out of the NIC.
    pub async fn write_and_read(&self, offset: u64, bytes: &[u8]) -> Result<(), PublishedError> {
        let local = self.stage(bytes);
        let last = bytes.len() as u64 - 1;
        let write = Operation::Write {
            local,
            remote: self.remote(offset),
        };
        self.submit(&[
            write,
            Operation::Read {
                local: self.scratch(1),
                remote: self.remote(offset + last),
            },
        ])
        .await
    }

    /// Takes all arrivals without waiting.
    pub fn collect(&mut self) -> Result<(), PublishedError> {
        let device = self.port.device();
        while let Some(received) = self.endpoint.inbox().take_received() {
            if received.status != Status::Success {
                self.gone = true;
                continue;
            }
            let mut bytes = Vec::new();
            self.receives.copy_out(&**device, &received, &mut bytes);
            let queue = ReceiveQueue::Own(self.endpoint.qp());
            self.receives.post(&**device, queue, received.wr_id)?;
            self.arrived.push_back(Message::parse(&bytes)?);
        }
        while let Some(event) = self.endpoint.inbox().take_event() {
            self.gone |= matches!(event, ConnectionEvent::Disconnected { .. });
        }
        Ok(())
    }

    /// Takes a message that is not an answer, if one has arrived.
    pub fn take_notice(&mut self) -> Result<Option<Message>, PublishedError> {
        self.collect()?;
        let position = self
            .arrived
            .iter()
            .position(|message| message.outcome().is_err());
        Ok(position.and_then(|position| self.arrived.remove(position)))
    }

    async fn answer(&mut self) -> Result<Message, PublishedError> {
        loop {
            self.collect()?;
            if let Some(position) = self
                .arrived
                .iter()
                .position(|message| message.outcome().is_ok())
            {
                return Ok(self.arrived.remove(position).expect("just found"));
            }
            if self.gone {
                return Err(PublishedError::Connection("the server is gone".to_owned()));
            }
            self.endpoint.inbox().activity().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_welcome_survives_the_wire_and_nonsense_is_refused() {
        let welcome = Welcome {
            geometry: Geometry::for_keys(20, 64, 100, 100),
            number: 7,
            memory_address: 1 << 40,
            memory_rkey: Rkey(9),
            request_address: 77,
            request_rkey: Rkey(3),
        };
        let bytes = welcome.encode();
        assert!(bytes.len() <= 196, "private data of a connection");
        assert_eq!(Welcome::parse(&bytes).unwrap(), welcome);
        assert!(Welcome::parse(&bytes[8..]).is_err());
        assert!(Welcome::parse(&bytes[1..]).is_err());
        assert!(Welcome::parse(&[]).is_err());
    }
}
