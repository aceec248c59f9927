//! A worker's one-sided connection to the memory of another server.

use std::rc::Rc;

use stonecast_fabric::{LocalSpan, MemoryRegion, Operation, Port, RemoteAddress, Status};
use stonecast_session::Endpoint;

use super::super::caller::{Caller, connect};
use super::super::control::{APPENDING, CALLING, Reached};
use super::super::serving::queues;
use super::Connecting;
use crate::PublishedError;

/// Work requests of a connection: two for each entry of a worker.
const SENDS: u32 = 4096;

/// A connection whose SENDs are entries.
pub(super) struct AppendLink {
    endpoint: Endpoint,
    one_sided: OneSided,
}

/// A connection whose SENDs are requests to the control thread.
pub(super) struct CallLink {
    pub caller: Rc<Caller>,
    pub one_sided: OneSided,
}

/// The memory of the other server, and a place for the bytes that are fetched from it.
pub(super) struct OneSided {
    pub reached: Reached,
    fetched: MemoryRegion,
}

impl AppendLink {
    pub async fn connect(connecting: &Connecting<'_>, server: u32) -> Result<Self, PublishedError> {
        let endpoint = Endpoint::new(connecting.port, queues(SENDS, 1))?;
        let address = connecting.store.options.control_address(server);
        let welcome = connect(&endpoint, &address, APPENDING).await?;
        let one_sided = OneSided::new(&endpoint, &welcome)?;
        Ok(Self {
            endpoint,
            one_sided,
        })
    }

    /// Appends an entry at the other server, and waits until it is persisted there.
    pub async fn append(&self, entry: LocalSpan) -> Result<(), PublishedError> {
        let send = Operation::Send { local: entry };
        submit(&self.endpoint, &[send, self.one_sided.flush()]).await
    }
}

impl CallLink {
    pub async fn connect(connecting: &Connecting<'_>, server: u32) -> Result<Self, PublishedError> {
        let address = connecting.store.options.control_address(server);
        let (caller, welcome) =
            Caller::connect(connecting.port, connecting.runtime, &address, CALLING).await?;
        let one_sided = OneSided::new(caller.endpoint(), &welcome)?;
        Ok(Self { caller, one_sided })
    }

    /// Writes to persistent memory of the other server, and waits until the bytes are persisted there.
    pub async fn write(&self, local: LocalSpan, place: u64) -> Result<(), PublishedError> {
        let (address, rkey) = self.one_sided.reached.log;
        let remote = RemoteAddress {
            address: address + place,
            rkey,
        };
        let write = Operation::Write { local, remote };
        submit(self.caller.endpoint(), &[write, self.one_sided.flush()]).await
    }

    /// Adds to the end of the shared log, and returns the end before.
    pub async fn fetch_and_add(
        &self,
        word: LocalSpan,
        port: &Port,
        add: u64,
    ) -> Result<u64, PublishedError> {
        let (address, rkey) = self.one_sided.reached.words;
        let remote = RemoteAddress {
            address: address + 8,
            rkey,
        };
        let local = word;
        let adding = Operation::FetchAndAdd { local, remote, add };
        submit(self.caller.endpoint(), &[adding]).await?;
        Ok(port.device().memory(word.region).load(word.offset))
    }
}

impl OneSided {
    fn new(endpoint: &Endpoint, welcome: &[u8]) -> Result<Self, PublishedError> {
        let reached = Reached::parse(welcome)?;
        let fetched = endpoint.allocate(8)?;
        Ok(Self { reached, fetched })
    }

    /// The READ of a byte whose answer follows everything before it into the memory controller.
    fn flush(&self) -> Operation {
        let (address, rkey) = self.reached.words;
        Operation::Read {
            local: LocalSpan {
                region: self.fetched,
                offset: 0,
                size: 1,
            },
            remote: RemoteAddress { address, rkey },
        }
    }
}

async fn submit(endpoint: &Endpoint, operations: &[Operation]) -> Result<(), PublishedError> {
    match endpoint.port().submit(endpoint.qp(), operations).await? {
        Status::Success => Ok(()),
        status => Err(PublishedError::Failed(status)),
    }
}
