//! Connecting, and the task that takes what arrives.
//!
//! ```text
//!   memory, queue pair -> connect -> welcome, checked -> access, checked -> client
//! ```
//!
//! What was made on the way is undone when it fails, and when the last handle of the client goes: a port serves any number
//! of clients one after the other.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use stonecast_fabric::{
    Access, ConnectionEvent, DeviceError, MemoryRegion, Port, QueuePair, QueuePairOptions,
    ReceiveQueue, ReceiveRequest, Runtime, Status,
};
use zerocopy::IntoBytes as _;

use super::Client;
use super::connection::{Connection, RECEIVES_SPARE, receive_request};
use super::memory::{SEND_CAPACITY, ServerMemory};
use crate::error::StoreError;
use crate::metrics::ClientPath;
use crate::wire::limits::{ANSWER_SIZE_MAX, IN_FLIGHT_MAX, LOCATIONS, STAGING_SIZE};
use crate::wire::{Hello, Welcome};

/// RNR retries of requests. The server posts most of its receive buffers again before it polls, so a client that has to wait
/// waits for a batch; a minute covers the slowest sync.
const RNR_RETRY_COUNT: u32 = 60_000;
const RNR_RETRY_DELAY_NS: u64 = 1_000_000;

/// Receive buffers of a client.
const RECEIVES: usize = IN_FLIGHT_MAX + RECEIVES_SPARE;

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Under which path the server counts what it does.
    pub path: ClientPath,
    /// Keys whose places in the log it remembers, so that reading one takes one round trip: 16 bytes of the client's memory
    /// for each, the number rounded up to a power of two. 0: none, as where the provider executes READs in the call.
    pub locations: usize,
    /// Whether it publishes its overwrites itself where the server lets it.
    pub publishes: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            path: ClientPath::OneSided,
            locations: LOCATIONS,
            publishes: true,
        }
    }
}

/// What a client has made on its device. Undone when dropped.
pub(super) struct Resources {
    port: Rc<Port>,
    qp: Option<QueuePair>,
    /// All memory of the client.
    regions: RefCell<Vec<MemoryRegion>>,
    pub receives: MemoryRegion,
    /// Where records lie until they are written.
    pub staging: MemoryRegion,
    /// The task that takes what arrives, while it waits.
    listener: Rc<Cell<Option<Waker>>>,
}

impl Resources {
    fn new(port: Rc<Port>) -> Result<Self, StoreError> {
        let device = port.device().clone();
        let receives = device.allocate((RECEIVES * ANSWER_SIZE_MAX) as u64, Access::NONE)?;
        let regions = RefCell::new(vec![receives]);
        let mut made = Self {
            port,
            qp: None,
            regions,
            receives,
            staging: receives,
            listener: Rc::default(),
        };
        made.staging = made.allocate(STAGING_SIZE)?;
        let qp = device.create_queue_pair(QueuePairOptions {
            send_cq: made.port.send_cq(),
            receive_cq: made.port.receive_cq(),
            shared_receive_queue: None,
            windows: false,
            send_capacity: SEND_CAPACITY,
            receive_capacity: RECEIVES as u32,
            rnr_retry_count: RNR_RETRY_COUNT,
            rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
        })?;
        made.qp = Some(qp);
        let all: Vec<ReceiveRequest> = (0..RECEIVES as u64)
            .map(|index| receive_request(receives, index))
            .collect();
        device.post_receive(ReceiveQueue::Own(qp), &all)?;
        Ok(made)
    }

    /// Allocates memory that is freed with the client.
    pub fn allocate(&self, size: u64) -> Result<MemoryRegion, DeviceError> {
        let region = self.port.device().allocate(size, Access::NONE)?;
        self.regions.borrow_mut().push(region);
        Ok(region)
    }

    /// Lets the task that takes what arrives look whether it is still needed.
    pub fn wake_listener(&self) {
        if let Some(waker) = self.listener.take() {
            waker.wake();
        }
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        // What a provider cannot free now it frees when the device is dropped.
        if let Some(qp) = self.qp {
            let _ = self.port.device().disconnect(qp);
            let _ = self.port.destroy_queue_pair(qp);
        }
        for &region in self.regions.borrow().iter() {
            // Its key opens nothing to anybody, so there is nothing to wait for.
            let _ = self
                .port
                .device()
                .poll_invalidate(region.rkey, &mut Context::from_waker(Waker::noop()));
            let _ = self.port.device().deregister(region);
        }
    }
}

impl Client {
    /// Connects to the server at `address`. The port must not be used for anything else as long as the client lives.
    pub async fn connect(
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        address: &str,
    ) -> Result<Self, StoreError> {
        Self::connect_with(ClientOptions::default(), port, runtime, address).await
    }

    /// Like `connect`; what this client does is counted under `path`.
    pub async fn connect_as(
        path: ClientPath,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        address: &str,
    ) -> Result<Self, StoreError> {
        Self::connect_with(
            ClientOptions {
                path,
                ..ClientOptions::default()
            },
            port,
            runtime,
            address,
        )
        .await
    }

    /// Like `connect`, as `options` say.
    pub async fn connect_with(
        options: ClientOptions,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        address: &str,
    ) -> Result<Self, StoreError> {
        let resources = Resources::new(port.clone())?;
        let qp = resources.qp.expect("just made");
        port.device()
            .connect(qp, address, Hello::new(options.path).as_bytes())?;
        let welcome = welcome(&port, qp, address).await?;
        // A copying client's ring is the server's staging memory, mirrored here.
        let ring_size = match u64::from(welcome.staging_size.get()) {
            0 => STAGING_SIZE,
            remote => remote,
        };
        let listener = resources.listener.clone();
        let runs = (port.clone(), runtime.clone());
        let connection = Rc::new(Connection::new(runs, qp, welcome, resources, ring_size));
        let arrivals = take_answers(port, listener, Rc::downgrade(&connection));
        runtime.spawn(Box::pin(arrivals));
        let memory = Rc::new(ServerMemory::open(connection).await?);
        Ok(Self::new(&options, memory))
    }
}

/// What the server says when it accepts.
async fn welcome(port: &Port, qp: QueuePair, address: &str) -> Result<Welcome, StoreError> {
    let refused = |reason: String| StoreError::refused(address, reason);
    loop {
        port.activity().await;
        // Before its first request nothing arrives for a client but the receive buffers of a queue pair that broke.
        while let Some(received) = port.take_received() {
            if received.qp == qp && received.status != Status::Success {
                return Err(refused(
                    "the connection broke before it was made".to_owned(),
                ));
            }
        }
        match port.take_event() {
            Some(ConnectionEvent::Established {
                qp: of,
                private_data,
            }) if of == qp => {
                return Welcome::parse(&private_data).map_err(|bad| bad.at(address));
            }
            Some(ConnectionEvent::Rejected { qp: of, reason }) if of == qp => {
                return Err(refused(reason));
            }
            Some(ConnectionEvent::Disconnected { qp: of, .. }) if of == qp => {
                return Err(refused("the server is gone".to_owned()));
            }
            // Of a client that used the port before.
            _ => {}
        }
    }
}

/// Hands arriving answers to the operations that wait for them, until the client is dropped.
async fn take_answers(port: Rc<Port>, listener: Rc<Cell<Option<Waker>>>, client: Weak<Connection>) {
    let mut bytes = Vec::new();
    loop {
        {
            let mut activity = pin!(port.activity());
            poll_fn(|context| match activity.as_mut().poll(context) {
                Poll::Pending if client.strong_count() > 0 => {
                    listener.set(Some(context.waker().clone()));
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            })
            .await;
        }
        let Some(connection) = client.upgrade() else {
            return;
        };
        while let Some(received) = port.take_received() {
            if received.qp != connection.qp {
                continue;
            }
            if received.status == Status::Success {
                connection.take_message(received.wr_id, received.placement.size, &mut bytes);
            } else {
                connection.end();
            }
        }
        while let Some(event) = port.take_event() {
            if matches!(event, ConnectionEvent::Disconnected { qp, .. } if qp == connection.qp) {
                connection.end();
            }
        }
    }
}
