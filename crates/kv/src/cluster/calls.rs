//! The calls of a client of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{BegunRead, Term};
use stonecast_fabric::Boxed;
use stonecast_log::{Condition, Expiry};

use super::ClusterClient;
use super::attempts::GivenUp;
use super::batches;
use super::entries::ClusterEntries;
use super::error::ClusterError;
use super::get::{ClusterGet, find_in_call, take_turn};
use super::map::{Copies, Map};
use super::nodes::Node;
use crate::client::{
    Applied, Batch, Client, FoundKey, Pair, PutRules, Token, Values, Written, touch,
};
use crate::error::{Effect, StoreError};
use crate::metrics::Metrics;
use crate::stat::Stat;

/// The value of a key, its version and its expiry; `None` if the key is absent.
pub type Found = Option<(Vec<u8>, FoundKey)>;

impl ClusterClient {
    /// Reads the value of `key` into `value` and returns its version. Returns `None` if the key is absent. The returned
    /// value is on all copies of its shard, and was the key's value at some moment during the call.
    #[inline]
    pub fn get<'a>(&'a self, key: &'a [u8], value: &'a mut Vec<u8>) -> ClusterGet<'a> {
        ClusterGet::new(self, key, value)
    }

    pub(super) fn get_until<'a>(
        &'a self,
        deadline: Nanoseconds,
        key: &'a [u8],
        value: &'a mut Vec<u8>,
    ) -> Boxed<'a, Result<Option<u64>, ClusterError>> {
        Box::pin(async move {
            let read = async |client: &Client| client.get(key, value).await;
            self.read_until(deadline, key, read).await
        })
    }

    /// Reads the value of `key` into `value` and returns its version and its expiry, like [`ClusterClient::get`].
    pub async fn find(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<FoundKey>, ClusterError> {
        if let Some(found) = find_in_call(self, key, value) {
            take_turn(self, self.nodes.shard_of(key)).await;
            return Ok(found);
        }
        self.find_until(self.deadline(), key, value).await
    }

    fn find_until<'a>(
        &'a self,
        deadline: Nanoseconds,
        key: &'a [u8],
        value: &'a mut Vec<u8>,
    ) -> Boxed<'a, Result<Option<FoundKey>, ClusterError>> {
        Box::pin(async move {
            let read = async |client: &Client| client.find(key, value).await;
            self.read_until(deadline, key, read).await
        })
    }

    /// A `read` at the primary of the shard of `key`, in attempts until `deadline`.
    async fn read_until<T>(
        &self,
        deadline: Nanoseconds,
        key: &[u8],
        mut read: impl AsyncFnMut(&Client) -> Result<T, StoreError>,
    ) -> Result<T, ClusterError> {
        let shard = self.nodes.shard_of(key);
        let found = self
            .attempt(shard, deadline, async |node: Rc<Node>| {
                self.read_at(&node, shard, &mut read).await
            })
            .await;
        found.map_err(of_read)
    }

    /// A `read` at `node`, in the term of `shard` that the client has entered there.
    async fn read_at<T>(
        &self,
        node: &Node,
        shard: u32,
        mut read: impl AsyncFnMut(&Client) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            let term = node.client.term(shard).unwrap_or_default();
            let begun = self.begin_read(node, shard, term).await?;
            let found = read(&node.client).await;
            if node.leases.covers(shard, begun, self.runtime.now()) {
                return found;
            }
            // Memory that was given to other records may look damaged. An error about this memory
            // counts only under a lease.
            if found.is_err() && !mutant!(ErrorUnchecked) {
                return Err(StoreError::NotPrimary { epoch: term });
            }
            found?;
        }
    }

    /// Begins to read in `term` of `shard`, under a lease that `node` has given, or gives now.
    pub(super) async fn begin_read(
        &self,
        node: &Node,
        shard: u32,
        term: Term,
    ) -> Result<BegunRead, StoreError> {
        if let Some(begun) = node.leases.begin(shard, term, self.runtime.now()) {
            return Ok(begun);
        }
        let renewed = node.leases.renew(&node.client, || self.runtime.now());
        renewed.await?;
        // A node without a lease of its own has none to give: the node no longer leads, or does not lead
        // at the moment.
        let begun = node.leases.begin(shard, term, self.runtime.now());
        begun.ok_or(StoreError::NotPrimary { epoch: term })
    }

    /// Reads the values of `keys`: the keys of each node in one batch, and the batches of all nodes at once. Each key
    /// is read as by [`ClusterClient::get`]; the values together are not a snapshot.
    pub fn multi_get<'a>(
        &'a self,
        keys: &'a [&'a [u8]],
    ) -> Boxed<'a, Vec<Result<Found, ClusterError>>> {
        Box::pin(async move {
            let deadline = self.deadline();
            let map = self.maps.latest();
            let mut of_nodes: BTreeMap<_, Vec<usize>> = BTreeMap::new();
            for (place, key) in keys.iter().enumerate() {
                let node = map.place(self.nodes.shard_of(key)).name;
                of_nodes.entry(node).or_default().push(place);
            }
            let batches = of_nodes.values().map(|places| async {
                let of_node: Vec<&[u8]> = places.iter().map(|&place| keys[place]).collect();
                let batch = self.get_together(&map, &of_node);
                let found = self.runtime.within(self.options.attempt_ns(), batch).await;
                match found.ok().flatten() {
                    Some(found) => found.into_iter().map(Ok).collect(),
                    None => self.get_each(deadline, &of_node).await,
                }
            });
            let batches = at_once(batches).await;
            let places = of_nodes.values().flatten();
            let mut all: Vec<_> = places.zip(batches.into_iter().flatten()).collect();
            all.sort_by_key(|&(place, _)| place);
            all.into_iter().map(|(_, found)| found).collect()
        })
    }

    /// Reads each of `keys` in a call of its own, all at once, until the `deadline`.
    async fn get_each(
        &self,
        deadline: Nanoseconds,
        keys: &[&[u8]],
    ) -> Vec<Result<Found, ClusterError>> {
        at_once(keys.iter().map(|key| async {
            let mut value = Vec::new();
            let found = self.find_until(deadline, key, &mut value).await?;
            Ok(found.map(|found| (value, found)))
        }))
        .await
    }

    /// The values of `keys`, which one node leads by `map`, in one batch. `None`: the node did not give all of them, or
    /// no lease covers the batch.
    async fn get_together(&self, map: &Map, keys: &[&[u8]]) -> Option<Vec<Found>> {
        let shards: BTreeSet<u32> = keys.iter().map(|key| self.nodes.shard_of(key)).collect();
        let mut node = None;
        for &shard in &shards {
            node = Some(self.nodes.session(map, shard).await.ok()?);
        }
        let node = node?;
        let mut begun = Vec::new();
        for &shard in &shards {
            let read = self.begin_read(&node, shard, map.place(shard).term).await;
            begun.push((shard, read.ok()?));
        }
        let mut values = Values::default();
        node.client.multi_get(keys, &mut values).await.ok()?;
        let now = self.runtime.now();
        let covers = |&(shard, begun)| node.leases.covers(shard, begun, now);
        let value = |index| {
            let found = values.found(index);
            found.map(|(value, found)| (value.to_vec(), found))
        };
        begun
            .iter()
            .all(covers)
            .then(|| (0..keys.len()).map(value).collect())
    }

    /// Stores `value` under `key` and returns its version. When the call returns, the write is on all copies of the
    /// key's shard, as durable as their pools promise, and visible to every client. On an error see
    /// [`ClusterError::effect`].
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, ClusterError> {
        let mut token = None;
        match self
            .put_with(&mut token, key, value, Condition::None)
            .await?
        {
            Written::Done(version) => Ok(version),
            Written::Conflict(_) => Err(StoreError::Protocol {
                what: "an unconditional put cannot conflict",
            }
            .into()),
        }
    }

    /// Stores all `pairs` at once. Each pair is a put as by [`ClusterClient::put`]; puts of one key may be done in any
    /// order.
    pub async fn multi_put(&self, pairs: &[Pair<'_>]) -> Vec<Result<u64, ClusterError>> {
        at_once(pairs.iter().map(|(key, value)| self.put(key, value))).await
    }

    /// Like [`ClusterClient::put`], if the condition of `rules` holds at the moment of the write; the key then has the
    /// expiry of `rules`. `token` names the write, and is made by the first attempt: after [`ClusterError::Unknown`], a
    /// call with the same token and the same write finds out the outcome, and does the write if it was not done. The
    /// write takes effect once.
    pub fn put_with<'a>(
        &'a self,
        token: &'a mut Option<Token>,
        key: &'a [u8],
        value: &'a [u8],
        rules: impl Into<PutRules>,
    ) -> Boxed<'a, Result<Written, ClusterError>> {
        let rules = rules.into();
        Box::pin(async move {
            let shard = self.nodes.shard_of(key);
            let mut is_repeated = false;
            let written = self
                .attempt(shard, self.deadline(), async |node: Rc<Node>| {
                    let token = token.get_or_insert_with(|| node.client.token());
                    let put = node.client.put_with(token, key, value, rules).await;
                    // The client stood still between the chunks and the record that names them. The
                    // value is whole here, and goes out once more, as another upload.
                    match put {
                        Err(StoreError::ChunksGone)
                            if !std::mem::replace(&mut is_repeated, true) =>
                        {
                            node.client.put_with(token, key, value, rules).await
                        }
                        put => put,
                    }
                })
                .await;
            written.map_err(|given_up| of_write(given_up, token))
        })
    }

    /// Changes the expiry of `key`; see [`Client::touch`]. Each attempt to store the value has a token of its own.
    pub async fn touch(
        &self,
        key: &[u8],
        expires: Option<Expiry>,
        version: Option<u64>,
    ) -> Result<Written, ClusterError> {
        touch(
            (expires, version),
            async |value| self.find(key, value).await,
            async |value, rules| self.put_with(&mut None, key, value, rules).await,
        )
        .await
    }

    /// The time by which `key` expires, in milliseconds since 1970 in UTC, or a few milliseconds later. The time is
    /// that of the key's shard; other shards may be ahead of it; see [`Client::server_time_ms`].
    pub fn time_ms<'a>(&'a self, key: &'a [u8]) -> Boxed<'a, Result<u64, ClusterError>> {
        Box::pin(async move {
            let shard = self.nodes.shard_of(key);
            let told = self.attempt(shard, self.deadline(), async |node: Rc<Node>| {
                node.client.time_of_ms(shard).await
            });
            told.await.map_err(of_read)
        })
    }

    /// Removes `key` and returns whether the key was there.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, ClusterError> {
        let removed = self.delete_with(&mut None, key, Condition::None).await?;
        Ok(removed.is_some())
    }

    /// Removes `key` if `condition` holds; see [`ClusterClient::put_with`]. Returns `None` if there was nothing to
    /// remove.
    pub fn delete_with<'a>(
        &'a self,
        token: &'a mut Option<Token>,
        key: &'a [u8],
        condition: Condition,
    ) -> Boxed<'a, Result<Option<Written>, ClusterError>> {
        Box::pin(async move {
            let shard = self.nodes.shard_of(key);
            let removed = self
                .attempt(shard, self.deadline(), async |node| {
                    let token = token.get_or_insert_with(|| node.client.token());
                    node.client.delete_with(token, key, condition).await
                })
                .await;
            removed.map_err(|given_up| of_write(given_up, token))
        })
    }

    /// Applies a batch: does all of its changes, if each of its expectations holds, or nothing. When the call returns
    /// [`Applied::Done`], all changes are on all copies of their shard, as durable as their pools promise, and visible
    /// to every client. Whatever nodes die, an heir has all changes, or none.
    ///
    /// Changes become visible one after the other; see [`Client::apply`].
    ///
    /// # Errors
    /// [`StoreError::BatchShards`]: the keys are of several shards, and nothing was done.
    pub async fn apply(&self, batch: &Batch) -> Result<Applied, ClusterError> {
        self.apply_with(&mut None, batch).await
    }

    /// Like [`ClusterClient::apply`]. `token` names the batch, and is made by the first attempt; see
    /// [`ClusterClient::put_with`]. The batch of each call with a token must be the same.
    pub fn apply_with<'a>(
        &'a self,
        token: &'a mut Option<Token>,
        batch: &'a Batch,
    ) -> Boxed<'a, Result<Applied, ClusterError>> {
        Box::pin(batches::apply(self, token, batch))
    }

    /// Finds all keys, shard by shard. The call reads the indexes of all shards. The iteration is no snapshot: a key
    /// that is present all the time is found once, and a key that is written or deleted meanwhile may or may not be
    /// found.
    pub async fn entries(&self) -> Result<ClusterEntries, ClusterError> {
        ClusterEntries::find(self).await
    }

    /// The number of keys. Each shard is counted once, by its primary, at some moment during the call: also while
    /// shards get other primaries.
    pub fn keys<'a>(&'a self) -> Boxed<'a, Result<u64, ClusterError>> {
        Box::pin(async move {
            let shards = 0..self.maps.latest().shards();
            let counts = at_once(shards.map(async |shard| {
                let counted = self.attempt(shard, self.deadline(), async |node: Rc<Node>| {
                    let mut count = async |client: &Client| client.keys_of_shard(shard).await;
                    self.read_at(&node, shard, &mut count).await
                });
                counted.await.map_err(of_read)
            }));
            counts.await.into_iter().sum()
        })
    }

    /// The counts of all nodes that lead shards, by the names of the nodes. The nodes are asked at once. A node that
    /// leads nothing is not asked. While shards get other primaries, the keys of a shard may be counted by two nodes or
    /// by none; [`ClusterClient::keys`] counts them once.
    pub fn metrics<'a>(&'a self) -> Boxed<'a, Vec<(String, Result<Metrics, ClusterError>)>> {
        Box::pin(async move {
            let map = self.maps.latest();
            let shards = map.first_shards();
            let mut asked = BTreeSet::new();
            let mut counts = at_once(shards.map(|shard| {
                let map = map.clone();
                async move {
                    let counted = self.attempt(shard, self.deadline(), async |node: Rc<Node>| {
                        let metrics = node.client.metrics().await?;
                        Ok((node.name.to_string(), metrics))
                    });
                    match counted.await {
                        Ok((name, metrics)) => (name, Ok(metrics)),
                        Err(given_up) => {
                            let name = map.place(shard).name.to_string();
                            (name, Err(of_read(given_up)))
                        }
                    }
                }
            }))
            .await;
            // The heir of a node that is gone answers for that node as well.
            counts.retain(|(name, _)| asked.insert(name.clone()));
            counts
        })
    }

    /// The counts of all nodes that lead shards, added up, and the number of keys, each counted once.
    pub async fn metrics_of_all(&self) -> Result<Metrics, ClusterError> {
        let mut sum: Option<Metrics> = None;
        for (_, counted) in self.metrics().await {
            let counted = counted?;
            sum = Some(sum.map_or(counted, |sum| sum.and(&counted)));
        }
        let mut sum = sum.expect("each shard has a primary in the map");
        sum.stat.keys = self.keys().await?;
        Ok(sum)
    }

    /// Reports the operations of this client to the nodes with which it has a session, so that their counts are right
    /// while the client is idle.
    pub async fn report(&self) {
        // A node that is gone needs no report.
        at_once(
            self.nodes
                .sessions()
                .iter()
                .map(|node| node.client.report()),
        )
        .await;
    }

    /// Whether acknowledged writes survive a power loss, by the promises of the pools in the latest configuration.
    pub fn survives_power(&self) -> bool {
        self.maps.latest().survives_power()
    }

    /// The number of copies that have every write to `shards` that was acknowledged before this call. The call reads
    /// the present configuration: a copy is in sync only while it has all of these writes. Without a shard, writes to
    /// any shard count.
    ///
    /// # Errors
    /// The configuration store did not answer.
    pub fn copies<'a>(&'a self, shards: &'a [u32]) -> Boxed<'a, Result<Copies, ClusterError>> {
        Box::pin(async move {
            let read = self.maps.current();
            let read = self.runtime.within(self.options.patience_ns, read).await;
            let store = || self.maps.store_name();
            let unanswered = |_| Err(ClusterError::Unanswered { store: store() });
            let map = read.unwrap_or_else(unanswered)?;
            let of_all = || map.copies(0..map.shards());
            let copies = map.copies(shards.iter().copied()).or_else(of_all);
            Ok(copies.expect("there are shards"))
        })
    }

    /// Gives back the leases of this client, and disconnects from all nodes. A later call connects again.
    pub fn close<'a>(&'a self) -> Boxed<'a, ()> {
        Box::pin(async move {
            let closing = self.nodes.take_all().into_iter();
            at_once(closing.map(|node| node.client.clone().close())).await;
        })
    }

    /// The report of the primary of `shard`.
    pub fn stat<'a>(&'a self, shard: u32) -> Boxed<'a, Result<Stat, ClusterError>> {
        Box::pin(async move {
            let stat = self
                .attempt(shard, self.deadline(), async |node: Rc<Node>| {
                    node.client.stat().await
                })
                .await;
            stat.map_err(of_read)
        })
    }

    /// The shard of `key`.
    pub fn shard_of(&self, key: &[u8]) -> u32 {
        self.nodes.shard_of(key)
    }

    /// Requests to the configuration store so far.
    pub fn configuration_reads(&self) -> u64 {
        self.maps.reads()
    }
}

/// The error of a call that changes nothing.
pub(super) fn of_read(given_up: GivenUp) -> ClusterError {
    let GivenUp { shard, error, .. } = given_up;
    match given_up.is_late || error.effect() == Effect::Unknown {
        true => ClusterError::NotServed {
            shard,
            source: Box::new(error),
        },
        false => error.into(),
    }
}

/// The error of a write, which `token` names. The last error says nothing about the attempts before
/// it, so the token alone tells whether the write may have been done.
pub(super) fn of_write(given_up: GivenUp, token: &Option<Token>) -> ClusterError {
    let GivenUp {
        shard,
        is_late,
        error,
    } = given_up;
    let token = token.as_ref().filter(|token| token.may_be_done());
    let believes_last = mutant!(EffectOfLastError) && error.effect() == Effect::None;
    match token.filter(|_| !believes_last) {
        // No further attempt finds out a forgotten outcome.
        Some(_) if matches!(error, StoreError::Forgotten) => error.into(),
        Some(token) => ClusterError::Unknown {
            shard,
            token: Box::new(token.clone()),
            source: Box::new(error),
        },
        None if is_late || error.effect() == Effect::Unknown => ClusterError::NotServed {
            shard,
            source: Box::new(error),
        },
        None => error.into(),
    }
}

/// Runs all of `work` at once. Returns the results in order.
async fn at_once<T, W: Future<Output = T>>(work: impl Iterator<Item = W>) -> Vec<T> {
    let mut underway: Vec<Result<T, Pin<Box<W>>>> = work.map(|it| Err(Box::pin(it))).collect();
    poll_fn(|context| {
        let mut are_done = true;
        for place in &mut underway {
            if let Err(work) = place {
                match work.as_mut().poll(context) {
                    Poll::Ready(result) => *place = Ok(result),
                    Poll::Pending => are_done = false,
                }
            }
        }
        if are_done {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let results = underway
        .into_iter()
        .map(|it| it.ok().expect("all are done"));
    results.collect()
}
