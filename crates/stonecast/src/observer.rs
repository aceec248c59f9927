//! An observer: asks one server for its counts, and reads and writes no key.

use std::time::Duration;

use stonecast_fabric::BusyPoll;
use stonecast_kv::{CLIENT_COMPLETIONS, CopyOfShard, Metrics, StoreError};

use crate::address::Place;
use crate::connector::{Connector, nanoseconds};
use crate::error::{Error, ErrorKind, Fault};
use crate::knock::explained;

/// A connection that asks one server for its counts, and whose calls wait. An observer belongs to the thread that made
/// it.
///
/// An observer leases nothing and reads no memory of the server. A node of a cluster therefore accepts an observer
/// whichever shards the node leads, and returns its own counts; a client of the cluster
/// ([`crate::blocking::Client::metrics`]) adds up the counts of all nodes that lead.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use std::time::Duration;
/// use stonecast::Connector;
///
/// let limit = Duration::from_secs(2);
/// let observer = Connector::new(&url)?
///     .connect_timeout(limit)
///     .operation_timeout(Some(limit))
///     .observe()?;
/// assert_eq!(observer.metrics()?.stat.keys, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Observer {
    executor: BusyPoll,
    counts: stonecast_kv::Observer,
    /// The time limit of a question.
    limit: Option<Duration>,
}

impl Observer {
    pub(crate) fn connect(connector: Connector) -> Result<Self, Error> {
        if matches!(connector.address.0, Place::Cluster(_)) {
            return Err(ErrorKind::Setup(format!(
                "{} is a cluster, and an observer asks one server: give the address of a node",
                connector.address
            ))
            .into());
        }
        let device = connector.open_device()?;
        let (executor, port) = device.drive(connector.spin_ns(), CLIENT_COMPLETIONS)?;
        let (runtime, address) = (executor.runtime(), connector.address.to_string());
        let path = connector.options.path;
        let counts = stonecast_kv::Observer::connect(path, port, runtime.clone(), &address);
        let counts = async { counts.await.map_err(Error::of_read) };
        let counts = executor.block_on(connector.accepted(&runtime, counts));
        Ok(Self {
            counts: counts.map_err(|error| explained(error, &connector.address))?,
            executor,
            limit: connector.operation_timeout,
        })
    }

    /// Everything that the server counts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] if the server is silent for longer than [`Connector::operation_timeout`], and
    /// [`ErrorKind::Store`] if the connection is over. After an error, connect again.
    pub fn metrics(&self) -> Result<Metrics, Error> {
        self.ask(self.counts.metrics())
    }

    /// The copies of the shards whose primary the server is: which of them lag, and how far the copies are that the
    /// server fills. A server that is alone has none.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let server = stonecast::Server::builder(folder.path().join("pool"))
    /// #     .durability(stonecast::Durability::Process).serve()?;
    /// # let url = server.address().to_string();
    /// let observer = stonecast::Connector::new(&url)?.observe()?;
    /// for copy in observer.copies()? {
    ///     println!("{} lacks {} entries of shard {}", copy.node, copy.behind_entries, copy.shard);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Observer::metrics`].
    pub fn copies(&self) -> Result<Vec<CopyOfShard>, Error> {
        self.ask(self.counts.copies())
    }

    fn ask<T>(&self, asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, Error> {
        let answer = match self.limit {
            None => self.executor.block_on(asked),
            Some(limit) => {
                let runtime = self.executor.runtime();
                let asked = runtime.within(nanoseconds(limit), asked);
                let answered = self.executor.block_on(asked);
                answered.map_err(|_| Fault::Late(limit).of_read())?
            }
        };
        answer.map_err(Error::of_read)
    }
}
