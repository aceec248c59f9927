//! Rowan-KV: the NIC of a backup places the entries of all servers one behind the other.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::Connecting;
use super::link::AppendLink;
use super::staging::Staging;
use crate::PublishedError;

/// SENDs into the buffers of the backups' control threads.
pub(crate) struct Appends {
    links: BTreeMap<u32, AppendLink>,
    staging: Staging,
}

impl Appends {
    pub async fn connect(connecting: &Connecting<'_>) -> Result<Self, PublishedError> {
        let mut links = BTreeMap::new();
        for server in connecting.others() {
            links.insert(server, AppendLink::connect(connecting, server).await?);
        }
        let staging = Staging::new(connecting.port)?;
        Ok(Self { links, staging })
    }

    pub async fn replicate(&self, backups: &[u32], entry: &[u8]) -> Result<(), PublishedError> {
        let staged = self.staging.stage(entry)?;
        try_join_all(
            backups
                .iter()
                .map(|backup| self.links[backup].append(staged.span)),
        )
        .await?;
        Ok(())
    }
}
