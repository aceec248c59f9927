//! The admin port's view of the gateway and the store. The observer has a thread of its own, which may wait for the
//! store.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use stonecast::{Connector, blocking};
use stonecast_kv::{ClientPath, Metrics};

use super::pulse::Pulse;
use crate::error::GatewayError;
use crate::shared::Shared;

/// The admin port's view of the gateway and the store.
pub struct Observer {
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
    /// The connection to the store. If there is none, the next question opens one.
    link: RefCell<Option<blocking::Client>>,
}

/// The gateway and the store at one moment.
pub struct Report<'o> {
    /// The gateway.
    pub shared: &'o Shared,
    /// Whether the gateway's threads make progress.
    pub is_alive: bool,
    /// The store's counts, requested for this report.
    pub store: Result<Metrics, GatewayError>,
}

/// The time limit for an answer of the store.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The time for which the thread polls for an answer before it sleeps.
const SPIN: Duration = Duration::from_micros(20);

impl Observer {
    /// An observer without a connection, which the first report opens.
    pub fn new(shared: Arc<Shared>, pulse: Arc<Pulse>) -> Self {
        Self {
            shared,
            pulse,
            link: RefCell::new(None),
        }
    }

    /// Makes a report. Waits for the store.
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
            None => connect(&self.shared.options.store)?,
        };
        let metrics = connected.metrics()?;
        // A connection is kept as long as it works: after an error the next question opens a new one.
        *link = Some(connected);
        Ok(metrics)
    }
}

fn connect(store: &str) -> Result<blocking::Client, stonecast::Error> {
    Connector::new(store)?
        .counted_as(ClientPath::Gateway)
        .connect_timeout(ANSWER_TIMEOUT)
        .operation_timeout(Some(ANSWER_TIMEOUT))
        .spin(SPIN)
        .connect_blocking()
}
