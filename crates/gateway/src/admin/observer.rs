//! The admin port's view of the gateway and the store. The observer has a thread of its own, which may wait for the
//! store.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use stonecast::Connector;
use stonecast::structures::{self, Connection};
use stonecast_kv::{ClientPath, CopyOfShard, Metrics};

use super::pulse::Pulse;
use crate::error::GatewayError;
use crate::shared::Shared;

/// The admin port's view of the gateway and the store.
pub struct Observer {
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
    /// The connection to the store, which may be one node of a cluster. Without a connection, the next question opens
    /// one.
    link: RefCell<Option<stonecast::Observer>>,
    /// The connection to the back-end of data structures.
    back_end: RefCell<Option<Connection>>,
}

/// The gateway and the store at one moment.
pub struct Report<'o> {
    /// The gateway.
    pub shared: &'o Shared,
    /// Whether the gateway's threads make progress.
    pub is_alive: bool,
    /// The store's counts, requested for this report; `None`: the gateway has no store.
    pub store: Option<Result<Metrics, GatewayError>>,
    /// The counts of the back-end of data structures, if any.
    pub structures: Option<Result<structures::Metrics, GatewayError>>,
}

impl Report<'_> {
    /// A sentence that names the part that does not serve.
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

/// The time limit for an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

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

    /// The copies of the shards whose primary the node is that made `report`; none if the node does not answer. Waits
    /// for the store.
    pub fn copies(&self, report: &Report<'_>) -> Vec<CopyOfShard> {
        let is_node = |metrics: &Metrics| metrics.copying.epoch > 0;
        let counted = report.store.as_ref().and_then(|store| store.as_ref().ok());
        if !counted.is_some_and(is_node) {
            return Vec::new();
        }
        let mut link = self.link.borrow_mut();
        let connected = link.take();
        let copies = connected.as_ref().map(stonecast::Observer::copies);
        let copies = copies.and_then(Result::ok);
        // A connection is kept as long as it works.
        *link = connected.filter(|_| copies.is_some());
        copies.unwrap_or_default()
    }

    fn metrics(&self, store: &str) -> Result<Metrics, GatewayError> {
        let mut link = self.link.borrow_mut();
        let connected = match link.take() {
            Some(connected) => connected,
            None => Connector::new(store)?
                .connect_timeout(ANSWER_TIME_MAX)
                .operation_timeout(Some(ANSWER_TIME_MAX))
                .counted_as(ClientPath::Gateway)
                .observe()?,
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
                let connector = Connector::new(back_end)?.connect_timeout(ANSWER_TIME_MAX);
                Connection::open(connector)?
            }
        };
        let asked = async |session: &structures::Session| {
            session.within(ANSWER_TIME_MAX, session.metrics()).await
        };
        let metrics = connection.run(asked).ok_or(GatewayError::Silent)??;
        *kept = Some(connection);
        Ok(metrics)
    }
}
