//! Iteration over all keys of a cluster, shard by shard.
//!
//! ```text
//!   entries   shard 0: words in the index of its primary    shard 1: ...
//!   next      records of shard 0, some at a time, to its end, then of shard 1
//!               another primary or term meanwhile: the words are found anew, and keys that were given before are left out
//! ```
//!
//! Words and records count only under a lease of the term in which they were read. The versions of different nodes have
//! no common order, so keys are in the order of their versions within each shard only.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use stonecast_base::hash::xxh3_128;
use stonecast_cluster::Term;
use stonecast_fabric::Boxed;

use super::ClusterClient;
use super::calls::of_read;
use super::error::ClusterError;
use super::nodes::Node;
use crate::client::{Entries, Entry};
use crate::error::StoreError;

/// The keys found by [`ClusterClient::entries`], without their records: 24 bytes each.
pub struct ClusterEntries {
    shards: VecDeque<OfShard>,
    /// The hashes of those keys of the first of `shards` that were given out.
    given: BTreeSet<u128>,
    found: usize,
}

/// The keys of a shard.
struct OfShard {
    shard: u32,
    seen: Seen,
}

/// The keys that were found in a session with a node, in a term.
struct Seen {
    session: u64,
    /// `None`: the keys have to be found again.
    term: Option<Term>,
    entries: Entries,
}

impl ClusterEntries {
    /// Finds all keys, shard by shard.
    pub(super) fn find<'a>(client: &'a ClusterClient) -> Boxed<'a, Result<Self, ClusterError>> {
        Box::pin(async move {
            let mut shards = VecDeque::new();
            for shard in 0..client.maps.latest().shards() {
                let found = client.attempt(shard, client.deadline(), async |node: Rc<Node>| {
                    Seen::find(client, &node, shard).await
                });
                let seen = found.await.map_err(of_read)?;
                shards.push_back(OfShard { shard, seen });
            }
            let found = shards.iter().map(|it| it.seen.entries.len()).sum();
            Ok(Self {
                shards,
                given: BTreeSet::new(),
                found,
            })
        })
    }

    /// Number of keys found.
    pub fn len(&self) -> usize {
        self.found
    }

    /// Whether no key was found.
    pub fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// Replaces the content of `into` by the next records. `into` is empty at the end. A call after a failed one reads
    /// the same records again.
    pub fn next<'a>(
        &'a mut self,
        client: &'a ClusterClient,
        into: &'a mut Vec<Entry>,
    ) -> Boxed<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            into.clear();
            while let Some(first) = self.shards.front_mut() {
                let shard = first.shard;
                let read = client.attempt(shard, client.deadline(), async |node: Rc<Node>| {
                    first.seen.next(client, &node, shard, into).await
                });
                read.await.map_err(of_read)?;
                if into.is_empty() {
                    self.shards.pop_front();
                    self.given.clear();
                    continue;
                }
                into.retain(|entry| self.given.insert(xxh3_128(&entry.key)));
                if !into.is_empty() {
                    break;
                }
            }
            Ok(())
        })
    }
}

impl Seen {
    async fn find(client: &ClusterClient, node: &Node, shard: u32) -> Result<Self, StoreError> {
        let term = node.client.term(shard);
        let found = node.client.entries_of_shard(shard);
        let entries = under_lease(client, node, shard, found).await?;
        Ok(Self {
            session: node.client.session(),
            term,
            entries,
        })
    }

    /// Replaces the content of `into` by the next records, read at `node`, which leads the shard.
    async fn next(
        &mut self,
        client: &ClusterClient,
        node: &Node,
        shard: u32,
        into: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.follow(client, node, shard).await?;
        // Records that no lease covers, or that are being read when the call is dropped, count as never read.
        let term = self.term.take();
        let next = self.entries.next(&node.client, into);
        under_lease(client, node, shard, next).await?;
        self.term = term;
        Ok(())
    }

    /// Finds the keys again unless they were found in this session with `node`, which leads the shard, and in the same
    /// term.
    async fn follow(
        &mut self,
        client: &ClusterClient,
        node: &Node,
        shard: u32,
    ) -> Result<(), StoreError> {
        if self.session != node.client.session() || self.term != node.client.term(shard) {
            *self = Self::find(client, node, shard).await?;
        }
        Ok(())
    }
}

/// Runs the READs of `work` in the term of `shard` that the client is in. Their result, or their error, counts only if
/// the node still leads the shard in that term. A lease that the node gives after the last READ proves that.
async fn under_lease<T>(
    client: &ClusterClient,
    node: &Node,
    shard: u32,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let term = node.client.term(shard).unwrap_or_default();
    client.begin_read(node, shard, term).await?;
    let done = work.await;
    client.begin_read(node, shard, term).await?;
    done
}
