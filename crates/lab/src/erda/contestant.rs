//! A client of one of the designs, on any provider.

use std::rc::Rc;

use stonecast_fabric::{DeviceError, Port, Runtime};
use stonecast_kv::{Client, StoreError};
use stonecast_published::{BaselineClient, ErdaClient, Geometry, PublishedError, Scheme};

/// The designs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Design {
    /// Erda as published.
    ErdaPublished,
    /// The first baseline of Erda.
    RedoLogging,
    /// The second baseline of Erda.
    ReadAfterWrite,
    /// The store of this project, durable in the declared persistence domain.
    Kv,
}

impl Design {
    /// All designs, in the order of the figures.
    pub const ALL: [Self; 4] = [
        Self::ErdaPublished,
        Self::RedoLogging,
        Self::ReadAfterWrite,
        Self::Kv,
    ];

    /// The name in the figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ErdaPublished => "erda-published",
            Self::RedoLogging => "redo-logging",
            Self::ReadAfterWrite => "read-after-write",
            Self::Kv => "kv",
        }
    }
}

/// The error of a contest.
#[derive(Debug, thiserror::Error)]
pub enum ContestError {
    /// A published design.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// The KV store.
    #[error(transparent)]
    Kv(#[from] StoreError),
}

/// A client of one of the designs.
pub struct Contestant {
    runtime: Rc<dyn Runtime>,
    kind: Kind,
}

enum Kind {
    Erda(ErdaClient),
    Baseline(BaselineClient),
    Kv(Client),
}

impl Contestant {
    /// Connects a client of `design` to the server at `address`, which serves a store of
    /// `geometry`. `make_port` makes a port with the given number of completion queue entries, on
    /// the device to use.
    pub async fn connect(
        design: Design,
        make_port: &dyn Fn(u32) -> Result<Rc<Port>, DeviceError>,
        runtime: Rc<dyn Runtime>,
        address: &str,
        geometry: &Geometry,
    ) -> Result<Self, ContestError> {
        let published =
            || make_port(stonecast_published::CLIENT_COMPLETIONS).map_err(PublishedError::from);
        let kind = match design {
            Design::Kv => {
                let port = make_port(stonecast_kv::CLIENT_COMPLETIONS).map_err(StoreError::from)?;
                Kind::Kv(Client::connect(port, runtime.clone(), address).await?)
            }
            Design::ErdaPublished => Kind::Erda(
                ErdaClient::connect(published()?, runtime.clone(), address, geometry).await?,
            ),
            Design::RedoLogging => Kind::Baseline(
                BaselineClient::connect(published()?, address, Scheme::RedoLogging, geometry)
                    .await?,
            ),
            Design::ReadAfterWrite => Kind::Baseline(
                BaselineClient::connect(published()?, address, Scheme::ReadAfterWrite, geometry)
                    .await?,
            ),
        };
        Ok(Self { runtime, kind })
    }

    /// The runtime of the client.
    pub fn runtime(&self) -> Rc<dyn Runtime> {
        self.runtime.clone()
    }

    /// Looks up a key. Returns whether it is present.
    pub async fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, ContestError> {
        Ok(match &mut self.kind {
            Kind::Erda(client) => client.get(key, value).await?,
            Kind::Baseline(client) => client.get(key, value).await?,
            Kind::Kv(client) => client.get(key, value).await?.is_some(),
        })
    }

    /// Stores a value.
    pub async fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), ContestError> {
        match &mut self.kind {
            Kind::Erda(client) => client.put(key, value).await?,
            Kind::Baseline(client) => client.put(key, value).await?,
            Kind::Kv(client) => drop(client.put(key, value).await?),
        }
        Ok(())
    }

    /// Removes a key.
    pub async fn delete(&mut self, key: &[u8]) -> Result<(), ContestError> {
        match &mut self.kind {
            Kind::Erda(client) => drop(client.delete(key).await?),
            Kind::Baseline(client) => client.delete(key).await?,
            Kind::Kv(client) => drop(client.delete(key).await?),
        }
        Ok(())
    }
}
