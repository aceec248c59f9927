//! The client: reads without the server, writes with one round trip.
//!
//! ```text
//!   get        bucket -> record                 two one-sided READs          read.rs
//!   put        record + notice -> answer        one WRITE_WITH_IMM           write.rs
//!   delete     request -> answer                one SEND                     write.rs
//!   entries    buckets, then records            one-sided READs              scan.rs
//! ```
//!
//! A client belongs to one thread and may have many operations in flight: each method is a future. Dropping a future
//! gives the operation up, not back: a write that was sent takes its course.

mod extents;
mod meter;
mod pending;
mod read;
mod scan;
mod turns;
mod write;
mod yardstick;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use stonecast_fabric::{
    Access, ConnectionEvent, LocalSpan, MemoryRegion, Port, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest, Runtime,
    Status,
};
use stonecast_log::LogFormat;
use zerocopy::IntoBytes as _;

use crate::error::StoreError;
use crate::limits::{ANSWER_SIZE_MAX, IN_FLIGHT_MAX, STAGING_SIZE};
use crate::metrics::{ClientPath, Metrics, PAGES};
use crate::protocol::{Answer, COUNTERS, Hello, Request, Welcome, next_answer};
use crate::stat::Stat;

use extents::Extents;
use meter::Meter;
use pending::Pending;
use turns::Turns;

pub use read::Values;
pub use scan::{Entries, Entry};
pub use write::Written;
pub use yardstick::Yardstick;

/// A connection to a server. Cloning gives another handle of the same connection.
#[derive(Clone)]
pub struct Client {
    inner: Rc<Inner>,
}

struct Inner {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    qp: QueuePair,
    welcome: Welcome,
    format: LogFormat,
    /// Free memory for READs that the provider cannot execute at once.
    scratch: RefCell<Vec<MemoryRegion>>,
    /// Where records lie until they are written.
    staging: MemoryRegion,
    receives: MemoryRegion,
    pending: RefCell<Pending>,
    extents: RefCell<Extents>,
    turns: Turns,
    meter: Meter,
    closed: Cell<bool>,
}

/// RNR retries of requests. The server posts its receive buffers again before it polls, so a client that has to wait
/// waits for a batch; a minute covers the slowest sync.
const RNR_RETRY_COUNT: u32 = 60_000;
const RNR_RETRY_DELAY_NS: u64 = 1_000_000;
/// Entries of the completion queues that a client's port needs.
pub const CLIENT_COMPLETIONS: u32 = 4 * IN_FLIGHT_MAX as u32;

impl Client {
    /// Connects to the server at `address`. The port must not be used for anything else.
    pub async fn connect(port: Rc<Port>, runtime: Rc<dyn Runtime>, address: &str) -> Result<Self, StoreError> {
        Self::connect_as(ClientPath::OneSided, port, runtime, address).await
    }

    /// Like `connect`; what this client does is counted under `path`.
    pub async fn connect_as(
        path: ClientPath,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        address: &str,
    ) -> Result<Self, StoreError> {
        let device = port.device().clone();
        let receives = device.allocate((IN_FLIGHT_MAX * ANSWER_SIZE_MAX) as u64, Access::NONE)?;
        let staging = device.allocate(STAGING_SIZE, Access::NONE)?;
        let qp = device.create_queue_pair(QueuePairOptions {
            send_cq: port.send_cq(),
            receive_cq: port.receive_cq(),
            shared_receive_queue: None,
            send_capacity: 2 * IN_FLIGHT_MAX as u32,
            receive_capacity: IN_FLIGHT_MAX as u32,
            rnr_retry_count: RNR_RETRY_COUNT,
            rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
        })?;
        let all: Vec<ReceiveRequest> = (0..IN_FLIGHT_MAX as u64).map(|index| receive_request(receives, index)).collect();
        device.post_receive(ReceiveQueue::Own(qp), &all)?;
        device.connect(qp, address, Hello::new(path).as_bytes())?;
        let refused = |reason: String| StoreError::Refused { address: address.to_owned(), reason };
        let welcome = loop {
            port.activity().await;
            match port.take_event() {
                Some(ConnectionEvent::Established { private_data, .. }) => {
                    let welcome = Welcome::parse(&private_data);
                    break welcome.ok_or_else(|| refused("the server speaks another protocol version".to_owned()))?;
                }
                Some(ConnectionEvent::Rejected { reason, .. }) => return Err(refused(reason)),
                Some(ConnectionEvent::Disconnected { .. }) => return Err(refused("the server is gone".to_owned())),
                _ => {}
            }
        };
        let format = LogFormat {
            uuid: u128::from_le_bytes(welcome.uuid),
            tag_key: welcome.tag_key.get(),
            secret: None,
            segment_size: welcome.segment_size.get(),
            segment_count: welcome.segment_count.get(),
        };
        // A copying client's ring is the server's staging memory, mirrored here.
        let ring_size = match u64::from(welcome.staging_size.get()) {
            0 => STAGING_SIZE,
            remote => remote.min(STAGING_SIZE),
        };
        let inner = Rc::new(Inner {
            port,
            runtime,
            qp,
            welcome,
            format,
            scratch: RefCell::default(),
            staging,
            receives,
            pending: RefCell::new(Pending::new(ring_size)),
            extents: RefCell::new(Extents::new(&welcome)),
            turns: Turns::default(),
            meter: Meter::default(),
            closed: Cell::new(false),
        });
        inner.runtime.spawn(Box::pin(take_answers(inner.port.clone(), Rc::downgrade(&inner))));
        Ok(Self { inner })
    }

    /// The server's report of itself.
    pub async fn stat(&self) -> Result<Stat, StoreError> {
        self.page(0).await.map(|words| Stat::from_words(&words))
    }

    /// Everything that the server counts, what this client has done included.
    pub async fn metrics(&self) -> Result<Metrics, StoreError> {
        self.report().await?;
        let mut pages = [[0; COUNTERS]; PAGES as usize];
        for (number, page) in (0..).zip(&mut pages) {
            *page = self.page(number).await?;
        }
        Ok(Metrics::from_pages(&pages))
    }

    async fn page(&self, page: u8) -> Result<[u64; COUNTERS], StoreError> {
        match self.inner.request(Request::Stat { page }).await? {
            Answer::Stat(words) => Ok(words),
            _ => Err(StoreError::Protocol { what: "the answer to a stat request is no report" }),
        }
    }

    /// Gives back what the client holds and disconnects. Dropping the client disconnects too; what it held is then taken
    /// back by the server.
    pub async fn close(self) {
        // Where the server is gone nobody wants to know.
        let _ = self.report().await;
        let leases = self.inner.extents.borrow_mut().take_all();
        for slot in leases {
            // Where the server is gone there is nothing to give back to.
            if self.inner.release(slot).await.is_err() {
                return;
            }
        }
    }
}

fn receive_request(region: MemoryRegion, index: u64) -> ReceiveRequest {
    let size = ANSWER_SIZE_MAX as u32;
    ReceiveRequest { wr_id: index, local: LocalSpan { region, offset: index * u64::from(size), size } }
}

/// Hands arriving answers to the operations that wait for them, until the client is dropped or the connection ends.
async fn take_answers(port: Rc<Port>, inner: Weak<Inner>) {
    let mut bytes = Vec::new();
    loop {
        port.activity().await;
        let Some(inner) = inner.upgrade() else { return };
        while let Some(received) = port.take_received() {
            if received.status == Status::Success {
                inner.take_message(received.wr_id, received.placement.size, &mut bytes);
            } else {
                inner.end();
            }
        }
        while let Some(event) = port.take_event() {
            if matches!(event, ConnectionEvent::Disconnected { .. }) {
                inner.end();
            }
        }
    }
}

impl Inner {
    fn take_message(&self, wr_id: u64, size: u32, bytes: &mut Vec<u8>) {
        let request = receive_request(self.receives, wr_id);
        bytes.resize(size.min(request.local.size) as usize, 0);
        self.port.device().memory(self.receives).read(request.local.offset, bytes);
        // Posted again before the answers are handed out: whoever gets one may send the next request at once.
        if self.port.device().post_receive(ReceiveQueue::Own(self.qp), &[request]).is_err() {
            return self.end();
        }
        let mut rest = bytes.as_slice();
        while let Some(answer) = next_answer(&mut rest) {
            if !self.pending.borrow_mut().answer(answer) {
                return self.end();
            }
        }
        if !rest.is_empty() {
            self.end();
        }
    }

    /// The connection is over: every operation that waits is told.
    fn end(&self) {
        if !self.closed.replace(true) {
            // Disconnecting twice or too late is no harm.
            let _ = self.port.device().disconnect(self.qp);
            self.pending.borrow_mut().end();
        }
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get() { Err(StoreError::Disconnected { unknown: false }) } else { Ok(()) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let device = self.port.device();
        let _ = device.disconnect(self.qp);
        let _ = device.destroy_queue_pair(self.qp);
    }
}
