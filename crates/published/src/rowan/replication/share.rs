//! Share-KV: one log at each server, in which every remote thread reserves its places by FETCH_AND_ADD.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::try_join_all;
use stonecast_fabric::{LocalSpan, Port};

use super::Connecting;
use super::link::CallLink;
use super::staging::Staging;
use crate::PublishedError;

/// Reservations and WRITEs in the shared logs of the other servers.
pub(crate) struct Shares {
    port: Rc<Port>,
    links: BTreeMap<u32, CallLink>,
    staging: Staging,
    segment_size: u64,
}

impl Shares {
    pub async fn connect(connecting: &Connecting<'_>) -> Result<Self, PublishedError> {
        let mut links = BTreeMap::new();
        for server in connecting.others() {
            links.insert(server, CallLink::connect(connecting, server).await?);
        }
        Ok(Self {
            port: connecting.port.clone(),
            links,
            staging: Staging::new(connecting.port)?,
            segment_size: connecting.store.options.segment_size.into(),
        })
    }

    pub async fn replicate(&self, backups: &[u32], entry: &[u8]) -> Result<(), PublishedError> {
        let staged = self.staging.stage(entry)?;
        let copies = backups
            .iter()
            .map(|backup| self.append(&self.links[backup], staged.span));
        try_join_all(copies).await?;
        Ok(())
    }

    async fn append(&self, link: &CallLink, entry: LocalSpan) -> Result<(), PublishedError> {
        let area = link.one_sided.reached.shared;
        let size = u64::from(entry.size);
        let found = self.staging.stage(&[0; 8])?;
        loop {
            let end = link.fetch_and_add(found.span, &self.port, size).await?;
            if end + size > area.size {
                return Err(PublishedError::Full);
            }
            // A place that reaches into the next segment stays empty.
            if end / self.segment_size == (end + size - 1) / self.segment_size {
                return link.write(entry, area.offset + end).await;
            }
        }
    }
}
