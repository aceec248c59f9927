//! A front-end's connection: READs, WRITEs with a window of outstanding ones, CAS, and appends to both logs.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::Span;
use stonecast_fabric::{
    Boxed, DeviceError, LocalSpan, MemoryRegion, Operation, Port, ReadInto, RemoteAddress, Rkey,
    Status,
};
use stonecast_session::{ConnectError, Endpoint, Queues, Side};

use super::layout::{AsymLayout, Word};
use super::log::{MemoryLog, OperationLog, Ring, wrap_mark};
use crate::PublishedError;
use crate::link::GREETING;

/// Outstanding work requests.
const SENDS: u32 = 8192;
/// READs of one doorbell.
const READS_MAX: usize = 32;
/// Bytes for READs in transit.
const SCRATCH_SIZE: u64 = 4 << 20;
/// Bytes for WRITEs in transit.
const STAGING_SIZE: u64 = 8 << 20;
/// Entries of the completion queues that the port of a session needs.
pub const ASYM_COMPLETIONS: u32 = SENDS;

/// A front-end's connection to an instance.
pub struct AsymSession {
    endpoint: Endpoint,
    /// The sizes of the back-end's memory.
    pub layout: AsymLayout,
    pub(super) instance: u32,
    memory: RemoteAddress,
    scratch: MemoryRegion,
    staging: MemoryRegion,
    /// Where the next bytes are staged.
    at: u64,
    window: VecDeque<Posted>,
    ends: Ends,
    counts: SessionCounts,
}

/// The ends of both logs, and the part of the memory log that is known to be applied.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    operations: u64,
    tail: u64,
    applied: u64,
}

/// Counts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// READs that were posted.
    pub reads: u64,
    /// Batches of READs that were waited for: round trips.
    pub trips: u64,
    /// WRITEs that were posted.
    pub writes: u64,
    /// Bytes written.
    pub written: u64,
}

/// WRITEs of one doorbell.
struct Posted {
    end: Boxed<'static, Result<Status, DeviceError>>,
    is_over: bool,
    size: u64,
}

impl AsymSession {
    /// Connects to the back-end at `address`.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn connect(
        port: &Rc<Port>,
        address: &str,
        instance: u32,
    ) -> Result<Self, PublishedError> {
        let endpoint = Endpoint::new(
            port,
            Queues {
                send_capacity: SENDS,
                receive_capacity: 1,
                shared_receive_queue: None,
                windows: false,
                rnr_retry_count: 1000,
                rnr_retry_delay_ns: 100_000,
            },
        )?;
        let said = match endpoint.connect(address, &GREETING.say(b"")).await {
            Ok(said) => said,
            Err(ConnectError::Device(error)) => return Err(error.into()),
            Err(other) => return Err(PublishedError::Connection(other.to_string())),
        };
        let words = GREETING
            .hear(Side::Server, &said)
            .map_err(|mismatch| PublishedError::Connection(mismatch.to_string()))?;
        let words: Vec<u64> = words
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let [sizes @ .., address, rkey] = &*words else {
            return Err(PublishedError::Protocol("a short welcome"));
        };
        let sizes = sizes.try_into();
        let sizes = sizes.map_err(|_| PublishedError::Protocol("a welcome of another length"))?;
        let layout = AsymLayout::from_words(sizes);
        if instance >= layout.instances {
            return Err(PublishedError::Protocol("no such instance"));
        }
        Ok(Self {
            memory: RemoteAddress {
                address: *address,
                rkey: Rkey(*rkey as u32),
            },
            layout,
            instance,
            scratch: endpoint.allocate(SCRATCH_SIZE)?,
            staging: endpoint.allocate(STAGING_SIZE)?,
            endpoint,
            at: 0,
            window: VecDeque::new(),
            ends: Ends::default(),
            counts: SessionCounts::default(),
        })
    }

    /// Counts so far.
    pub fn counts(&self) -> SessionCounts {
        self.counts
    }

    fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.memory.address + offset,
            ..self.memory
        }
    }

    fn scratch(&self) -> LocalSpan {
        LocalSpan {
            region: self.scratch,
            offset: 0,
            size: SCRATCH_SIZE as u32,
        }
    }

    /// Reads places, as many as fit with one doorbell.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn read(&mut self, places: &[Span]) -> Result<Vec<Vec<u8>>, PublishedError> {
        let mut bytes: Vec<Vec<u8>> = places
            .iter()
            .map(|place| vec![0; place.size as usize])
            .collect();
        for (places, bytes) in places.chunks(READS_MAX).zip(bytes.chunks_mut(READS_MAX)) {
            let reads = places.iter().zip(bytes);
            let mut reads: Vec<ReadInto<'_>> = reads
                .map(|(place, into)| ReadInto {
                    remote: self.remote(place.offset),
                    into,
                })
                .collect();
            let (qp, port) = (self.endpoint.qp(), self.endpoint.port());
            let status = port.read(qp, &mut reads, self.scratch(), None).await?;
            succeeded(status)?;
            self.counts.reads += places.len() as u64;
            self.counts.trips += 1;
        }
        Ok(bytes)
    }

    /// Reads places by READs of at most `size_max` bytes: the first ones of all places with one doorbell, then the next
    /// ones.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub(super) async fn read_in_pieces(
        &mut self,
        places: &[Span],
        size_max: u64,
    ) -> Result<Vec<Vec<u8>>, PublishedError> {
        let mut bytes = vec![Vec::new(); places.len()];
        loop {
            let left = places.iter().zip(&bytes).map(|(place, read)| {
                let done = read.len() as u64;
                Span::new(place.offset + done, (place.size - done).min(size_max))
            });
            let left = left.enumerate().filter(|(_, piece)| piece.size > 0);
            let (owners, pieces): (Vec<usize>, Vec<Span>) = left.unzip();
            if pieces.is_empty() {
                return Ok(bytes);
            }
            for (owner, piece) in owners.into_iter().zip(self.read(&pieces).await?) {
                bytes[owner].extend(piece);
            }
        }
    }

    /// Posts WRITEs with one doorbell. They are complete when the NIC of the back-end has acknowledged them.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn post(&mut self, writes: &[(u64, Vec<u8>)]) -> Result<(), PublishedError> {
        let operations = self.stage(writes).await?;
        self.submit(operations, writes).await
    }

    /// Posts WRITEs and then a READ with one doorbell. The READ is answered when the WRITEs have left the NIC.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn post_flushed(&mut self, writes: &[(u64, Vec<u8>)]) -> Result<(), PublishedError> {
        let mut operations = self.stage(writes).await?;
        if let Some((last, _)) = writes.last() {
            let local = LocalSpan {
                size: 8,
                offset: SCRATCH_SIZE - 8,
                ..self.scratch()
            };
            let remote = self.remote(*last);
            operations.push(Operation::Read { local, remote });
        }
        self.submit(operations, writes).await
    }

    async fn stage(&mut self, writes: &[(u64, Vec<u8>)]) -> Result<Vec<Operation>, PublishedError> {
        let padded = |bytes: &Vec<u8>| (bytes.len() as u64).next_multiple_of(64);
        let size: u64 = writes.iter().map(|(_, bytes)| padded(bytes)).sum();
        assert!(size <= STAGING_SIZE / 2, "{size} bytes of one doorbell");
        let outstanding = |window: &VecDeque<Posted>| {
            let sizes = window.iter().map(|posted| posted.size);
            sizes.sum::<u64>()
        };
        while outstanding(&self.window) + size > STAGING_SIZE / 2 {
            let left = self.window.len() - 1;
            self.settle(left).await?;
        }
        if self.at + size > STAGING_SIZE {
            self.at = 0;
        }
        let memory = self.endpoint.port().device().memory(self.staging);
        let mut operations = Vec::with_capacity(writes.len() + 1);
        for (place, bytes) in writes {
            memory.write(self.at, bytes);
            let local = LocalSpan {
                region: self.staging,
                offset: self.at,
                size: bytes.len() as u32,
            };
            let remote = self.remote(*place);
            operations.push(Operation::Write { local, remote });
            self.at += padded(bytes);
        }
        Ok(operations)
    }

    async fn submit(
        &mut self,
        operations: Vec<Operation>,
        writes: &[(u64, Vec<u8>)],
    ) -> Result<(), PublishedError> {
        while self.window.len() >= SENDS as usize / 4 {
            let left = self.window.len() - 1;
            self.settle(left).await?;
        }
        self.counts.writes += writes.len() as u64;
        let written = |(_, bytes): &(u64, Vec<u8>)| bytes.len() as u64;
        self.counts.written += writes.iter().map(written).sum::<u64>();
        let padded = |bytes: &Vec<u8>| (bytes.len() as u64).next_multiple_of(64);
        let size = writes.iter().map(|(_, bytes)| padded(bytes)).sum();
        let (port, qp) = (self.endpoint.port().clone(), self.endpoint.qp());
        let mut end: Boxed<'static, _> =
            Box::pin(async move { port.submit(qp, &operations).await });
        // The first poll posts.
        let polled = poll_fn(|context| Poll::Ready(end.as_mut().poll(context))).await;
        let is_over = match polled {
            Poll::Ready(status) => {
                succeeded(status?)?;
                true
            }
            Poll::Pending => false,
        };
        self.window.push_back(Posted { end, is_over, size });
        Ok(())
    }

    /// Waits until at most so many doorbells are outstanding.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn settle(&mut self, outstanding: usize) -> Result<(), PublishedError> {
        while self.window.len() > outstanding {
            let posted = self.window.pop_front().expect("some are outstanding");
            if !posted.is_over {
                succeeded(posted.end.await?)?;
            }
        }
        Ok(())
    }

    /// Compares and swaps a word. Returns the word that was found.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn compare_and_swap(
        &mut self,
        place: u64,
        expected: u64,
        swap: u64,
    ) -> Result<u64, PublishedError> {
        let local = LocalSpan {
            size: 8,
            ..self.scratch()
        };
        let operation = Operation::CompareAndSwap {
            local,
            remote: self.remote(place),
            expected,
            swap,
        };
        let (port, qp) = (self.endpoint.port(), self.endpoint.qp());
        succeeded(port.submit(qp, &[operation]).await?)?;
        let mut found = [0; 8];
        port.device().memory(self.scratch).read(0, &mut found);
        Ok(u64::from_le_bytes(found))
    }

    /// The WRITE of an operation. Returns the place of its bytes in the operation log, for memory logs that point to
    /// them.
    pub(super) fn operation_write(&mut self, operation: &OperationLog) -> ((u64, Vec<u8>), Span) {
        let bytes = operation.encode();
        let ring = self.operation_ring();
        let (position, _) = ring.place(self.ends.operations, bytes.len() as u64);
        self.ends.operations = position + bytes.len() as u64;
        let offset = ring.offset(position);
        let logged = Span::new(offset + OperationLog::HEADER_SIZE, operation.0.len() as u64);
        ((offset, bytes), logged)
    }

    /// Appends an operation: one WRITE. Returns the place of its bytes.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn append_operation(
        &mut self,
        operation: &OperationLog,
    ) -> Result<Span, PublishedError> {
        let (write, logged) = self.operation_write(operation);
        self.post(&[write]).await?;
        Ok(logged)
    }

    /// Appends a transaction: one WRITE, and one of the commit word. Waits while the ring has no room.
    ///
    /// # Errors
    /// [`PublishedError::Full`]: the transaction is longer than the ring takes.
    pub async fn append_transaction(
        &mut self,
        log: MemoryLog,
        is_flushed: bool,
    ) -> Result<u64, PublishedError> {
        let bytes = log.finish();
        let ring = self.memory_ring();
        let (position, wraps) = ring.place(self.ends.tail, bytes.len() as u64);
        let end = position + bytes.len() as u64;
        if bytes.len() as u64 + 64 > ring.size / 2 {
            return Err(PublishedError::Full);
        }
        while end > self.ends.applied + ring.size {
            self.settle(0).await?;
            self.learn_applied().await?;
        }
        let mut writes = Vec::with_capacity(3);
        if wraps {
            writes.push((ring.offset(self.ends.tail), wrap_mark().to_vec()));
        }
        writes.push((ring.offset(position), bytes));
        let tail = self.layout.word(self.instance, Word::Tail);
        let words = [end, self.ends.operations];
        let words = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        writes.push((tail, words));
        self.ends.tail = end;
        match is_flushed {
            true => self.post_flushed(&writes).await?,
            false => self.post(&writes).await?,
        }
        Ok(end)
    }

    /// Reads how far the memory log is applied.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn learn_applied(&mut self) -> Result<u64, PublishedError> {
        self.ends.applied = self.word(Word::Applied).await?;
        Ok(self.ends.applied)
    }

    /// The end of the memory log as this front-end knows it.
    pub fn tail(&self) -> u64 {
        self.ends.tail
    }

    pub(super) fn set_tail(&mut self, tail: u64) {
        self.ends.tail = tail;
    }

    fn operation_ring(&self) -> Ring {
        Ring {
            start: self.layout.operation_log(self.instance),
            size: self.layout.log_size,
        }
    }

    fn memory_ring(&self) -> Ring {
        Ring {
            start: self.layout.memory_log(self.instance),
            size: self.layout.log_size,
        }
    }

    /// The port.
    pub fn port(&self) -> &Rc<Port> {
        self.endpoint.port()
    }
}

fn succeeded(status: Status) -> Result<(), PublishedError> {
    match status {
        Status::Success => Ok(()),
        status => Err(PublishedError::Failed(status)),
    }
}
