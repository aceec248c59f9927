//! The admin port's view of the gateway and the store. The observer has a thread of its own, which may wait for the
//! store.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use stonecast::Connector;
use stonecast::structures::{self, Connection};
use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::{CLIENT_COMPLETIONS, ClientPath, Metrics, Observer as Counts, StoreError};

use super::pulse::Pulse;
use crate::error::GatewayError;
use crate::shared::Shared;

/// The admin port's view of the gateway and the store.
pub struct Observer {
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
    /// The connection to the store. If there is none, the next question opens one.
    link: RefCell<Option<Link>>,
    /// The connection to the back-end of data structures.
    back_end: RefCell<Option<Connection>>,
}

/// The gateway and the store at one moment.
pub struct Report<'o> {
    /// The gateway.
    pub shared: &'o Shared,
    /// Whether the gateway's threads make progress.
    pub is_alive: bool,
    /// The store's counts, requested for this report; `None`: there is no store.
    pub store: Option<Result<Metrics, GatewayError>>,
    /// The counts of the back-end of data structures; `None`: there is none.
    pub structures: Option<Result<structures::Metrics, GatewayError>>,
}

impl Report<'_> {
    /// A sentence that names the part that serves nobody.
    pub fn silent(&self) -> Option<&'static str> {
        if matches!(self.store, Some(Err(_))) {
            return Some("the store does not answer\n");
        }
        match &self.structures {
            Some(Err(GatewayError::Structures(structures::Error::IsMirror { .. }))) => {
                Some("the server is a mirror of data structures, which serves no front-end\n")
            }
            Some(Err(_)) => Some("the back-end of data structures does not answer\n"),
            _ => None,
        }
    }
}

/// A connection to the store. A node of a cluster accepts it, whichever shards the node leads.
struct Link {
    counts: Counts,
    executor: BusyPoll,
}

/// The time limit for an answer of the store.
const ANSWER_NS_MAX: Nanoseconds = 2_000_000_000;
/// The time for which the thread polls for an answer before it sleeps.
const SPIN_NS: Nanoseconds = 20_000;

impl Observer {
    /// An observer without a connection, which the first report opens.
    pub fn new(shared: Arc<Shared>, pulse: Arc<Pulse>) -> Self {
        Self {
            shared,
            pulse,
            link: RefCell::new(None),
            back_end: RefCell::new(None),
        }
    }

    /// Makes a report. Waits for the store.
    pub fn report(&self) -> Report<'_> {
        let options = &self.shared.options;
        let back_end = options.structures.as_deref();
        Report {
            shared: &self.shared,
            is_alive: self.pulse.is_alive(),
            store: options.store.as_deref().map(|store| self.metrics(store)),
            structures: back_end.map(|back_end| self.structures(back_end)),
        }
    }

    fn metrics(&self, store: &str) -> Result<Metrics, GatewayError> {
        let mut link = self.link.borrow_mut();
        let connected = match link.take() {
            Some(connected) => connected,
            None => Link::to(store)?,
        };
        let metrics = connected.metrics()?;
        // A connection is kept as long as it works: after an error the next question opens a new one.
        *link = Some(connected);
        Ok(metrics)
    }

    fn structures(&self, back_end: &str) -> Result<structures::Metrics, GatewayError> {
        let mut kept = self.back_end.borrow_mut();
        let connection = match kept.take() {
            Some(connection) => connection,
            None => {
                let limit = Duration::from_nanos(ANSWER_NS_MAX);
                let connector = Connector::new(back_end)?.connect_timeout(limit);
                Connection::open(connector)?
            }
        };
        let limit = Duration::from_nanos(ANSWER_NS_MAX);
        let asked =
            async |session: &structures::Session| session.within(limit, session.metrics()).await;
        let metrics = connection.run(asked).ok_or(GatewayError::Silent)??;
        *kept = Some(connection);
        Ok(metrics)
    }
}

impl Link {
    fn to(store: &str) -> Result<Self, GatewayError> {
        let device = ShmDevice::new(ShmOptions::default()).map_err(stonecast::Error::from)?;
        let executor = BusyPoll::new(device.clone(), SPIN_NS);
        let port = Port::new(device, CLIENT_COMPLETIONS).map_err(stonecast::Error::from)?;
        let port = Rc::new(port);
        executor.add_port(&port);
        let runtime = executor.runtime();
        let connected = Counts::connect(ClientPath::Gateway, port, runtime.clone(), store);
        let connected = executor.block_on(runtime.within(ANSWER_NS_MAX, connected));
        let late = |_| StoreError::Disconnected { unknown: false };
        let counts = connected.map_err(late)??;
        Ok(Self { counts, executor })
    }

    fn metrics(&self) -> Result<Metrics, GatewayError> {
        let runtime = self.executor.runtime();
        let asked = runtime.within(ANSWER_NS_MAX, self.counts.metrics());
        let answered = self.executor.block_on(asked);
        let late = |_| StoreError::Disconnected { unknown: false };
        Ok(answered.map_err(late)??)
    }
}
