//! A connection to a server, and the loop that drives it.

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Port};
use stonecast_fabric_shm::ShmOptions;
use stonecast_kv::{CLIENT_COMPLETIONS, Client};

use crate::fabric::{self, Opened};
use crate::failure::Failure;
use crate::flags::Connection;

/// How long a client looks for its answer before it sleeps. A wake-up costs some ten microseconds, a sync a hundred:
/// longer than this a command that runs once would only burn a core.
const SPIN_NS: Nanoseconds = 50_000;
/// A server accepts between two batches, and a batch is a sync at the longest.
const CONNECT_NS_MAX: Nanoseconds = 10_000_000_000;

/// A connected client.
pub struct Session {
    executor: BusyPoll,
    client: Client,
}

impl Session {
    /// Connects.
    pub fn open(connection: &Connection) -> Result<Self, Failure> {
        let address = &connection.address;
        let Opened { device, park } =
            fabric::open(address, ShmOptions::default(), &connection.verbs, None)?;
        let executor = BusyPoll::new(park, SPIN_NS);
        let port = Rc::new(Port::new(device, CLIENT_COMPLETIONS)?);
        executor.add_port(&port);
        let name = address.to_string();
        let runtime = executor.runtime();
        let client = executor.block_on(async {
            let mut connected = pin!(Client::connect(port, executor.runtime(), &name));
            let mut late = pin!(runtime.sleep(CONNECT_NS_MAX));
            std::future::poll_fn(|context| match connected.as_mut().poll(context) {
                Poll::Ready(client) => Poll::Ready(Some(client)),
                Poll::Pending => late.as_mut().poll(context).map(|()| None),
            })
            .await
        });
        match client {
            Some(Ok(client)) => Ok(Self { executor, client }),
            Some(Err(error)) => Err(Failure::operation(format!(
                "{error}. Is `stonecast serve` running there?"
            ))),
            None => Err(Failure::operation(format!(
                "the server at {address} does not answer"
            ))),
        }
    }

    /// Runs `work` to its end.
    pub fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.executor.block_on(work(&self.client))
    }

    /// Gives back what the client holds.
    pub fn close(self) {
        self.executor.block_on(self.client.close());
    }
}
