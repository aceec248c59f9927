//! RPC-KV: a worker thread of the backup copies an entry into its log, persists it, and answers. The same code serves
//! the store like HermesKV, in which the other thread also invalidates the key, and is told when all copies are made.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::try_join_all;

use super::super::caller::Caller;
use super::super::entry::Entry;
use super::super::message::{Kind, Outcome};
use super::Connecting;
use crate::PublishedError;

/// Requests to the worker thread of the same number at each backup.
pub(crate) struct Calls {
    servers: BTreeMap<u32, Rc<Caller>>,
    kind: Kind,
}

impl Calls {
    pub async fn connect(connecting: &Connecting<'_>, kind: Kind) -> Result<Self, PublishedError> {
        let mut servers = BTreeMap::new();
        for server in connecting.others() {
            let options = &connecting.store.options;
            let address = options.worker_address(server, connecting.worker);
            let (port, runtime) = (connecting.port, connecting.runtime);
            let (caller, _) = Caller::connect(port, runtime, &address, &[]).await?;
            servers.insert(server, caller);
        }
        Ok(Self { servers, kind })
    }

    pub async fn replicate(&self, backups: &[u32], entry: &[u8]) -> Result<(), PublishedError> {
        let copy = |backup: &u32| {
            let server = self.servers[backup].clone();
            async move {
                let outcome = server.call(self.kind, 0, entry, &mut Vec::new()).await?;
                match outcome {
                    Outcome::Done => Ok(()),
                    Outcome::Full => Err(PublishedError::Full),
                    Outcome::Absent | Outcome::Failed | Outcome::Elsewhere => {
                        Err(PublishedError::Unknown)
                    }
                }
            }
        };
        try_join_all(backups.iter().map(copy)).await?;
        Ok(())
    }

    /// Tells the other servers that all copies of an entry are made.
    pub fn conclude(&self, others: &[u32], entry: &Entry<'_>) {
        for other in others {
            // A server that is gone needs no word.
            let version = entry.version.to_le_bytes();
            let _ = self.servers[other].tell(Kind::Validate, entry.key, &version);
        }
    }
}
