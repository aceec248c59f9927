//! What the admin port sees of the gateway and the store.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, ClientPath, Metrics, StoreError};

use crate::error::GatewayError;
use crate::shared::Shared;

/// See the module documentation.
pub struct Observer {
    /// The gateway.
    pub shared: Arc<Shared>,
    link: RefCell<Option<Link>>,
    /// Rounds of each thread, and when they were last seen to grow.
    rounds: RefCell<Vec<(u64, Instant)>>,
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
/// A thread goes round ten times a second; one that has not for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(5);

impl Observer {
    /// Of a gateway.
    pub fn new(shared: Arc<Shared>) -> Self {
        let rounds = shared.threads.iter().map(|_| (0, Instant::now())).collect();
        Self {
            shared,
            link: RefCell::new(None),
            rounds: RefCell::new(rounds),
        }
    }

    /// The store's report of everything that it counts, asked for now.
    pub fn metrics(&self) -> Result<Metrics, GatewayError> {
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

    /// Whether every thread goes round. To be called now and then.
    pub fn is_alive(&self) -> bool {
        let mut rounds = self.rounds.borrow_mut();
        for ((count, since), thread) in rounds.iter_mut().zip(&self.shared.threads) {
            let now = thread.rounds.get();
            if now != *count {
                (*count, *since) = (now, Instant::now());
            }
        }
        !self.shared.is_ready()
            || rounds
                .iter()
                .all(|(_, since)| since.elapsed() < SILENCE_MAX)
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
