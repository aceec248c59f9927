//! Connecting, and the task that takes what arrives.
//!
//! ```text
//!   memory, queue pair -> connect -> welcome, checked -> access, checked -> client
//! ```
//!
//! What was made on the way is undone when it fails.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use stonecast_fabric::{ConnectionEvent, Port, QueuePair, Runtime, Status};
use zerocopy::IntoBytes as _;

use super::Client;
use super::connection::Connection;
use super::memory::ServerMemory;
use super::resources::Resources;
use crate::error::StoreError;
use crate::metrics::ClientPath;
use crate::wire::limits::{LOCATIONS, STAGING_SIZE};
use crate::wire::{Hello, Welcome};

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
        let qp = resources.queue_pair();
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
