//! A client's side of a connection: queue pair, memory, and an inbox of its own.
//!
//! ```text
//!   new -> allocate ... -> connect -> private data of the server      the drop of the endpoint undoes everything
//! ```
//!
//! Invariant: an endpoint takes only its own arrivals, so any number of endpoints, and a server, can share a port.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use stonecast_fabric::{
    Access, ConnectionEvent, DeviceError, Inbox, MemoryRegion, Port, QueuePair,
};

use crate::Queues;

/// The queue pair, memory and inbox of one connection of a client. The drop of the value gives all of them back.
pub struct Endpoint {
    inbox: Rc<Inbox>,
    qp: QueuePair,
    regions: RefCell<Vec<MemoryRegion>>,
    ended: Cell<bool>,
}

/// The reason why no connection was made. Neither side keeps any part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The server refused or did not answer, or the text is not an address.
    #[error("{reason}")]
    Refused {
        /// The reason, in the words of the server or of the fabric.
        reason: String,
    },
    /// No process listens at the address, in the words of the system there.
    #[error("{reason}")]
    NobodyListens {
        /// The reason, in the words of the fabric.
        reason: String,
    },
    /// The server accepted and was gone before the connection could be used.
    #[error("the server is gone")]
    Gone,
    /// The connection failed before it was made.
    #[error("the connection broke before it was made")]
    Broken,
    /// The device of this side refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Endpoint {
    /// A queue pair on `port`, not connected. Neither the sum of all send capacities on a port nor that of all receive
    /// capacities may exceed the port's completions.
    pub fn new(port: &Rc<Port>, queues: Queues) -> Result<Self, DeviceError> {
        let inbox = Rc::new(Inbox::new(port));
        let qp = queues.create(port)?;
        inbox.claim(qp);
        Ok(Self {
            inbox,
            qp,
            regions: RefCell::default(),
            ended: Cell::new(false),
        })
    }

    /// The queue pair of this side.
    pub fn qp(&self) -> QueuePair {
        self.qp
    }

    /// The port of the endpoint.
    pub fn port(&self) -> &Rc<Port> {
        self.inbox.port()
    }

    /// The arrivals of the endpoint. A task that takes arrivals may hold the inbox: the endpoint ends without waiting
    /// for that task.
    pub fn inbox(&self) -> &Rc<Inbox> {
        &self.inbox
    }

    /// Memory of this side alone, `size` bytes, which ends with the endpoint.
    pub fn allocate(&self, size: u64) -> Result<MemoryRegion, DeviceError> {
        let region = self.port().device().allocate(size, Access::NONE)?;
        self.regions.borrow_mut().push(region);
        Ok(region)
    }

    /// Connects to the server at `address` and sends `hello`; returns the data that the server sent with its
    /// acceptance.
    ///
    /// Waits as long as the server takes. A future that is dropped earlier, for example by a deadline, leaves the
    /// endpoint in the middle of connecting: drop the endpoint, too, and the server sees a client that is gone.
    pub async fn connect(&self, address: &str, hello: &[u8]) -> Result<Vec<u8>, ConnectError> {
        self.port().device().connect(self.qp, address, hello)?;
        loop {
            self.inbox.activity().await;
            match self.inbox.take_event() {
                Some(ConnectionEvent::Established { private_data, .. }) => return Ok(private_data),
                Some(ConnectionEvent::Rejected {
                    reason,
                    nobody_listens,
                    ..
                }) => {
                    return Err(match nobody_listens {
                        true => ConnectError::NobodyListens { reason },
                        false => ConnectError::Refused { reason },
                    });
                }
                Some(ConnectionEvent::Disconnected { .. }) => return Err(ConnectError::Gone),
                Some(ConnectionEvent::Request { .. }) => {
                    unreachable!("a request belongs to no queue pair")
                }
                None => {}
            }
            // Before the connection is established, only the receive buffers of a broken queue pair can arrive.
            if self.inbox.take_received().is_some() {
                return Err(ConnectError::Broken);
            }
        }
    }

    /// Ends the connection, once. Tasks that wait on the queue pair are told; the memory stays until the endpoint is
    /// dropped.
    pub fn end(&self) {
        if !self.ended.replace(true) {
            // The queue pair is ended, too: a completion queue that overran delivers nothing to a waiting READ.
            let _ = self.port().device().disconnect(self.qp);
            let _ = self.port().destroy_queue_pair(self.qp);
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.end();
        free(self.port(), self.regions.take());
    }
}

/// Ends a connection without memory open to the peer, and frees its memory. A connection with windows ends by
/// [`Revocations`](crate::Revocations).
pub fn close(port: &Port, qp: QueuePair, regions: impl IntoIterator<Item = MemoryRegion>) {
    let _ = port.device().disconnect(qp);
    let _ = port.destroy_queue_pair(qp);
    free(port, regions);
}

/// Frees memory that is open to no peer. Memory that a provider cannot free at this moment is freed when the device is
/// dropped.
pub(crate) fn free(port: &Port, regions: impl IntoIterator<Item = MemoryRegion>) {
    let device = port.device();
    for region in regions {
        // The key opens nothing to any peer, so there is nothing to wait for.
        let _ = device.poll_invalidate(region.rkey, &mut Context::from_waker(Waker::noop()));
        let _ = device.deregister(region);
    }
}
