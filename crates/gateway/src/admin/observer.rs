//! What the admin port sees of the gateway and the store. It lives in a thread of its own, which may wait for the store.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, ClientPath, Metrics, StoreError};

use super::pulse::Pulse;
use crate::error::GatewayError;
use crate::shared::Shared;

/// See the module documentation.
pub struct Observer {
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
    link: RefCell<Option<Link>>,
}

/// Everything that is known at one moment.
pub struct Report<'o> {
    /// The gateway.
    pub shared: &'o Shared,
    /// Whether its threads go round.
    pub is_alive: bool,
    /// What the store counts, asked for now.
    pub store: Result<Metrics, GatewayError>,
}

/// A connection to the store.
struct Link {
    executor: BusyPoll,
    client: Client,
}

/// How long the store may take to answer.
const ANSWER_NS_MAX: Nanoseconds = 2_000_000_000;
/// How long an answer is looked for before the thread sleeps.
const SPIN_NS: Nanoseconds = 20_000;

impl Observer {
    /// Of a gateway.
    pub fn new(shared: Arc<Shared>, pulse: Arc<Pulse>) -> Self {
        Self {
            shared,
            pulse,
            link: RefCell::new(None),
        }
    }

    /// A report. Waits for the store.
    pub fn report(&self) -> Report<'_> {
        Report {
            shared: &self.shared,
            is_alive: self.pulse.is_alive(),
            store: self.metrics(),
        }
    }

    fn metrics(&self) -> Result<Metrics, GatewayError> {
        let mut link = self.link.borrow_mut();
        let connected = match link.take() {
            Some(connected) => connected,
            None => Link::open(&self.shared.options.store)?,
        };
        let metrics = connected.metrics()?;
        // Kept only as long as it works: after an error the next question opens a new one.
        *link = Some(connected);
        Ok(metrics)
    }
}

impl Link {
    fn open(store: &str) -> Result<Self, GatewayError> {
        let device = ShmDevice::new(ShmOptions::default())?;
        let executor = BusyPoll::new(device.clone(), SPIN_NS);
        let port = Rc::new(Port::new(device, CLIENT_COMPLETIONS)?);
        executor.add_port(&port);
        let client = within(
            &executor,
            Client::connect_as(ClientPath::Gateway, port, executor.runtime(), store),
        )??;
        Ok(Self { executor, client })
    }

    fn metrics(&self) -> Result<Metrics, GatewayError> {
        Ok(within(&self.executor, self.client.metrics())??)
    }
}

/// Drives `work` for as long as the store may take.
fn within<T>(executor: &BusyPoll, work: impl Future<Output = T>) -> Result<T, GatewayError> {
    let runtime = executor.runtime();
    executor.block_on(async {
        let mut work = pin!(work);
        let mut late = pin!(runtime.sleep(ANSWER_NS_MAX));
        std::future::poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => late
                .as_mut()
                .poll(context)
                .map(|()| Err(StoreError::Disconnected { unknown: false }.into())),
        })
        .await
    })
}
