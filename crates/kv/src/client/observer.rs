//! Asks a server for its counts, and reads and writes no key.

use std::rc::Rc;

use super::connection::Connection;
use crate::error::StoreError;
use crate::metrics::{Metrics, PAGES};
use crate::stat::{COUNTERS, Stat};
use crate::wire::{Answer, Request, Verdict};

/// A connection that only asks for counts. The connection needs no access to the memory of the server, so a node of a
/// cluster accepts the connection whichever shards the node leads.
pub struct Observer {
    pub(super) connection: Rc<Connection>,
}

impl Observer {
    /// Everything that the server counts.
    pub async fn metrics(&self) -> Result<Metrics, StoreError> {
        self.connection.metrics().await
    }
}

impl Connection {
    /// The server's report of itself.
    pub async fn stat(&self) -> Result<Stat, StoreError> {
        self.page(0).await.map(|words| Stat::from_words(&words))
    }

    /// The number of keys of `shard`.
    pub async fn keys_of_shard(&self, shard: u32) -> Result<u64, StoreError> {
        match self.request_of_primary(Request::Count { shard }).await? {
            Answer::Verdict {
                verdict: Verdict::Counted,
                version: keys,
            } => Ok(keys),
            _ => Err(StoreError::Protocol {
                what: "the answer to a question for the number of keys is no number",
            }),
        }
    }

    /// Everything that the server counts.
    pub async fn metrics(&self) -> Result<Metrics, StoreError> {
        let mut pages = [[0; COUNTERS]; PAGES as usize];
        for (number, page) in (0..).zip(&mut pages) {
            *page = self.page(number).await?;
        }
        Ok(Metrics::from_pages(&pages))
    }

    async fn page(&self, page: u8) -> Result<[u64; COUNTERS], StoreError> {
        match self.request(Request::Stat { page }).await? {
            Answer::Stat(words) => Ok(*words),
            _ => Err(StoreError::Protocol {
                what: "the answer to a stat request is no report",
            }),
        }
    }
}
