//! A connection to a server, for commands.

use std::rc::Rc;

use stonecast::Connector;
use stonecast::local::{self, Client};
use stonecast_fabric::Runtime;
use stonecast_fabric_shm::ShmOptions;

use crate::fabric::DeviceSettings;
use crate::failure::Failure;
use crate::flags::Connection;

/// A connected client.
pub struct Session {
    connection: local::Connection,
}

impl Session {
    /// Connects, with the time limits of the library.
    pub fn open(connection: &Connection) -> Result<Self, Failure> {
        Self::connect(connection, |connector| connector)
    }

    /// Connects, for a command that has many operations in flight. The operations wait for each other, so the time of a
    /// single operation says nothing about the server. The operations have no time limit except on a cluster, where an
    /// operation without a limit would wait for a node that never comes back.
    pub fn open_for_many(connection: &Connection) -> Result<Self, Failure> {
        let is_cluster = connection.address.is_cluster();
        Self::connect(connection, |connector| match is_cluster {
            true => connector,
            false => connector.operation_timeout(None),
        })
    }

    fn connect(
        connection: &Connection,
        limit: impl FnOnce(Connector) -> Connector,
    ) -> Result<Self, Failure> {
        let Connection { address, verbs } = connection;
        let device = DeviceSettings::of(address, ShmOptions::default(), verbs)?.open(None)?;
        let connector = limit(Connector::to(address.clone()));
        Ok(Self {
            connection: connector.connect_on(device)?,
        })
    }

    /// The clock and the timers of the connection.
    pub fn runtime(&self) -> &Rc<dyn Runtime> {
        self.connection.client().runtime()
    }

    /// Runs `work` to its end.
    pub fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.connection.run(work)
    }

    /// Gives back the client's leases and disconnects.
    pub fn close(self) {
        self.connection.close();
    }
}
