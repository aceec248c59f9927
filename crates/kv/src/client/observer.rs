//! Asks a server for its counts, and reads and writes no key.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::connection::Connection;
use crate::copies::CopyOfShard;
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

    /// The copies of the shards whose primary the server is, in the order of shards and nodes. A server without a
    /// cluster has none, and neither tells a server of an earlier version of any.
    pub async fn copies(&self) -> Result<Vec<CopyOfShard>, StoreError> {
        let mut copies = BTreeMap::new();
        let (mut known, mut total) = (0, 1);
        while known < total {
            let page = match self
                .connection
                .request(Request::Copies { from: known })
                .await?
            {
                Answer::Copies(page) => *page,
                Answer::Verdict {
                    verdict: Verdict::Invalid,
                    ..
                } => break,
                _ => {
                    return Err(StoreError::Protocol {
                        what: "the answer to a question for copies names no copies",
                    });
                }
            };
            // The configuration may change between two questions.
            total = if page.copies.is_empty() {
                0
            } else {
                page.total
            };
            known += page.copies.len() as u32;
            let named = page.copies.into_iter();
            copies.extend(named.map(|copy| ((copy.shard, copy.node.clone()), copy)));
        }
        Ok(copies.into_values().collect())
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
