//! Connecting, and the task that receives answers.
//!
//! ```text
//!   memory, queue pair -> connect -> welcome, checked -> access, checked -> client
//! ```
//!
//! A failed attempt to connect frees everything that the attempt has made.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use stonecast_fabric::{Boxed, ConnectionEvent, Inbox, Port, Runtime, Status, select};
use stonecast_lineage::Term;
use stonecast_session::ConnectError;
use zerocopy::IntoBytes as _;

use super::connection::Connection;
use super::memory::ServerMemory;
use super::resources::Resources;
use super::{Client, Observer};
use crate::error::StoreError;
use crate::metrics::ClientPath;
use crate::wire::limits::{LOCATIONS, STAGING_SIZE};
use crate::wire::{Hello, Welcome};

/// Options of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The path under which the server counts the client's calls.
    pub path: ClientPath,
    /// Number of keys whose places in the log the client remembers, so that a read of such a key takes one round trip:
    /// 16 bytes of the client's memory for each key, the number rounded up to a power of two. With 0, the client
    /// remembers no places. A client whose provider executes READs in the call also remembers none.
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

    /// Like `connect`; the server counts the calls of this client under `path`.
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

    /// Like `connect`, with `options`.
    pub async fn connect_with(
        options: ClientOptions,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        address: &str,
    ) -> Result<Self, StoreError> {
        let first = (0, Term::default());
        Self::connect_to(first, options, port, runtime, address).await
    }

    /// Like `connect_with`, to a node of a cluster: the node at `address` leads the shard `first.0` in the term
    /// `first.1`. Otherwise the error is [`StoreError::NotPrimary`]. Every other shard needs [`Client::enter`] before
    /// its first use.
    pub fn connect_to<'a>(
        first: (u32, Term),
        options: ClientOptions,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        address: &'a str,
    ) -> Boxed<'a, Result<Self, StoreError>> {
        Box::pin(async move {
            let connection = connected(options.path, port, runtime, address).await?;
            let memory = Rc::new(ServerMemory::open(connection, first).await?);
            Ok(Self::new(&options, memory))
        })
    }
}

impl Observer {
    /// Connects to the server at `address`, which may be a node of a cluster that leads no shard.
    pub async fn connect(
        path: ClientPath,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        address: &str,
    ) -> Result<Self, StoreError> {
        let connection = connected(path, port, runtime, address).await?;
        Ok(Self { connection })
    }
}

/// A connection whose server has accepted it, and that has no access to memory yet.
async fn connected(
    path: ClientPath,
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    address: &str,
) -> Result<Rc<Connection>, StoreError> {
    let resources = Resources::new(&port)?;
    let (endpoint, hello) = (&resources.endpoint, Hello::new(path));
    let said = match endpoint.connect(address, hello.as_bytes()).await {
        Ok(said) => said,
        Err(ConnectError::Device(error)) => return Err(error.into()),
        Err(other) => return Err(StoreError::refused(address, other.to_string())),
    };
    let welcome = Welcome::parse(&said).map_err(|bad| bad.at(address))?;
    // The ring of a copying client mirrors the server's staging memory.
    let ring_size = match u64::from(welcome.staging_size.get()) {
        0 => STAGING_SIZE,
        remote => remote,
    };
    let (listener, inbox) = (resources.listener.clone(), endpoint.inbox().clone());
    let (qp, runs) = (endpoint.qp(), (port, runtime.clone()));
    let connection = Rc::new(Connection::new(runs, qp, welcome, resources, ring_size));
    let arrivals = take_answers(inbox, listener, Rc::downgrade(&connection));
    runtime.spawn(Box::pin(arrivals));
    Ok(connection)
}

/// Hands arriving answers to the operations that wait, until the client is dropped.
async fn take_answers(
    inbox: Rc<Inbox>,
    listener: Rc<Cell<Option<Waker>>>,
    client: Weak<Connection>,
) {
    let mut bytes = Vec::new();
    loop {
        select(inbox.activity(), called(&client, &listener)).await;
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
        connection.abandon_given_up();
    }
}

/// Waits until the client is dropped, or has given up an upload. Both wake `listener`.
async fn called(client: &Weak<Connection>, listener: &Cell<Option<Waker>>) {
    poll_fn(|context| {
        let connection = client.upgrade();
        if connection.is_none_or(|connection| connection.has_given_up()) {
            return Poll::Ready(());
        }
        listener.set(Some(context.waker().clone()));
        Poll::Pending
    })
    .await;
}
