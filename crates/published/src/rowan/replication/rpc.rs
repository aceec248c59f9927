//! RPC-KV: a worker thread of the backup copies an entry into its log, persists it, and answers.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::try_join_all;

use super::super::caller::Caller;
use super::super::message::{Kind, Outcome};
use super::Connecting;
use crate::PublishedError;

/// Requests to the worker thread of the same number at each backup.
pub(crate) struct Calls {
    servers: BTreeMap<u32, Rc<Caller>>,
}

impl Calls {
    pub async fn connect(connecting: &Connecting<'_>) -> Result<Self, PublishedError> {
        let mut servers = BTreeMap::new();
        for server in connecting.others() {
            let options = &connecting.store.options;
            let address = options.worker_address(server, connecting.worker);
            let (port, runtime) = (connecting.port, connecting.runtime);
            let (caller, _) = Caller::connect(port, runtime, &address, &[]).await?;
            servers.insert(server, caller);
        }
        Ok(Self { servers })
    }

    pub async fn replicate(&self, backups: &[u32], entry: &[u8]) -> Result<(), PublishedError> {
        let copy = |backup: &u32| {
            let server = self.servers[backup].clone();
            async move {
                let outcome = server
                    .call(Kind::Replicate, 0, entry, &mut Vec::new())
                    .await?;
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
}
