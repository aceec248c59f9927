//! Batches of a client of a cluster: the keys of one shard, done together or not at all.

use std::rc::Rc;

use super::ClusterClient;
use super::calls::{of_read, of_write};
use super::error::ClusterError;
use super::nodes::Node;
use crate::client::{Applied, Batch, Token};
use crate::error::StoreError;

/// Applies `batch` at the primary of its shard; see [`ClusterClient::apply_with`].
pub(super) async fn apply(
    client: &ClusterClient,
    token: &mut Option<Token>,
    batch: &Batch,
) -> Result<Applied, ClusterError> {
    let Some(shard) = shard_of(client, batch)? else {
        return Ok(batch.done(0));
    };
    let deadline = client.deadline();
    if batch.changed().next().is_none() {
        let look = async |node: Rc<Node>| node.client.apply(batch).await;
        let applied = client.attempt(shard, deadline, look).await;
        return applied.map_err(of_read);
    }
    let applied = client
        .attempt(shard, deadline, async |node| {
            let token = token.get_or_insert_with(|| node.client.token());
            node.client.apply_with(token, batch).await
        })
        .await;
    applied.map_err(|given_up| of_write(given_up, token))
}

/// The shard of all keys of `batch`; `None`: the batch has no key.
fn shard_of(client: &ClusterClient, batch: &Batch) -> Result<Option<u32>, StoreError> {
    let mut keys = batch.keys();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    let shard = client.shard_of(key);
    match keys.find(|other| client.shard_of(other) != shard) {
        None => Ok(Some(shard)),
        Some(other) => Err(StoreError::BatchShards {
            keys: Box::new([key.to_vec(), other.to_vec()]),
        }),
    }
}
