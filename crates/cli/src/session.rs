//! A connection to a server, for commands.

use std::rc::Rc;

use stonecast::Connector;
use stonecast::local::{self, Client};
use stonecast_fabric::Runtime;
use stonecast_fabric_shm::ShmOptions;

use crate::fabric::DeviceSettings;
use crate::failure::Failure;
use crate::flags::Connection;

/// A connected client, with the time limits of the library.
pub struct Session {
    connection: local::Connection,
}

impl Session {
    /// Connects.
    pub fn open(connection: &Connection) -> Result<Self, Failure> {
        let Connection { address, verbs } = connection;
        let device = DeviceSettings::of(address, ShmOptions::default(), verbs)?.open(None)?;
        Ok(Self {
            connection: Connector::to(address.clone()).connect_on(device)?,
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

    /// Gives back what the client holds.
    pub fn close(self) {
        self.connection.close();
    }
}
