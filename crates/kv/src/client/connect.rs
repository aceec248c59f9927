//! Connecting, and the task that takes what arrives.
//!
//! ```text
//!   memory, queue pair -> connect -> welcome, checked -> access, checked -> client
//! ```
//!
//! A connection attempt that fails undoes everything that it has made.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use stonecast_fabric::{ConnectionEvent, Inbox, Port, Runtime, Status, select};
use stonecast_session::ConnectError;
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
    /// The path under which the server counts the client's calls.
    pub path: ClientPath,
    /// Keys whose places in the log it remembers, so that reading one takes one round trip: 16 bytes of the client's memory
    /// for each, the number rounded up to a power of two. 0: none, as if the provider executed READs in the call.
    pub locations: usize,
    /// Whether the client publishes its overwrites itself if the server lets it.
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
    /// Connects to the server at `address`. The port holds
    /// [`CLIENT_COMPLETIONS`](crate::CLIENT_COMPLETIONS) for each client on it.
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
        let resources = Resources::new(&port)?;
        let (endpoint, hello) = (&resources.endpoint, Hello::new(options.path));
        let said = match endpoint.connect(address, hello.as_bytes()).await {
            Ok(said) => said,
            Err(ConnectError::Device(error)) => return Err(error.into()),
            Err(other) => return Err(StoreError::refused(address, other.to_string())),
        };
        let welcome = Welcome::parse(&said).map_err(|bad| bad.at(address))?;
        // A copying client's ring is the server's staging memory, mirrored here.
        let ring_size = match u64::from(welcome.staging_size.get()) {
            0 => STAGING_SIZE,
            remote => remote,
        };
        let (listener, inbox) = (resources.listener.clone(), endpoint.inbox().clone());
        let (qp, runs) = (endpoint.qp(), (port, runtime.clone()));
        let connection = Rc::new(Connection::new(runs, qp, welcome, resources, ring_size));
        let arrivals = take_answers(inbox, listener, Rc::downgrade(&connection));
        runtime.spawn(Box::pin(arrivals));
        let memory = Rc::new(ServerMemory::open(connection).await?);
        Ok(Self::new(&options, memory))
    }
}

/// Hands arriving answers to the operations that wait for them, until the client is dropped.
async fn take_answers(
    inbox: Rc<Inbox>,
    listener: Rc<Cell<Option<Waker>>>,
    client: Weak<Connection>,
) {
    let mut bytes = Vec::new();
    loop {
        select(inbox.activity(), dropped(&client, &listener)).await;
        let Some(connection) = client.upgrade() else {
            return;
        };
        while let Some(received) = inbox.take_received() {
            if received.status == Status::Success {
                connection.take_message(&received, &mut bytes);
            } else {
                connection.end();
            }
        }
        while let Some(event) = inbox.take_event() {
            if matches!(event, ConnectionEvent::Disconnected { .. }) {
                connection.end();
            }
        }
    }
}

/// Waits until the client is dropped, which wakes `listener`.
async fn dropped(client: &Weak<Connection>, listener: &Cell<Option<Waker>>) {
    poll_fn(|context| {
        if client.strong_count() == 0 {
            return Poll::Ready(());
        }
        listener.set(Some(context.waker().clone()));
        Poll::Pending
    })
    .await;
}
