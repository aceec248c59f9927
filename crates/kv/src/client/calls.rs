//! The calls of a client. Each call is counted, and handed to the component that does the work.

use std::future::Future;
use std::task::{Context, Poll};

use stonecast_base::Nanoseconds;
use stonecast_lineage::Term;
use stonecast_log::{Condition, Draft, Expiry};

use super::hold::Hold;
use super::meter::TimedCall;
use super::publisher::plain_put;
use super::reader::{FoundKey, Get, Values};
use super::scan::{Entries, Entry, Scan};
use super::touch::touch;
use super::writer::{Applied, Batch, Pair, PutRules, Token, Tried, Written, apply, check_batch};
use super::{Client, Yardstick};
use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::stat::Stat;
use crate::wire::limits::check_key;
use crate::wire::{Answer, KeyMap, ReaderLeaseGrant, Request, Route, table_size};

impl Client {
    /// Enters `term` of `shard`, in which this client treats the server as the shard's primary:
    /// each later request for the shard belongs to that term. One request, unless the client is in
    /// the term already.
    ///
    /// Fails with [`StoreError::NotPrimary`] if the server does not lead the shard in that term; the client is then in
    /// no term of the shard. Fails with [`StoreError::Invalid`] if the shard does not exist.
    pub async fn enter(&self, shard: u32, term: Term) -> Result<(), StoreError> {
        if shard >= self.shards() {
            return Err(StoreError::Invalid);
        }
        self.inner.memory.enter(shard, term).await
    }

    /// The term of `shard` that this client has entered last.
    #[inline]
    pub fn term(&self, shard: u32) -> Option<Term> {
        self.inner.connection.terms.of(shard)
    }

    /// Asks for a lease on the memory of all shards that this client has entered. The client leaves
    /// a shard that has lapsed.
    pub(crate) async fn ask_lease(&self) -> Result<ReaderLeaseGrant, StoreError> {
        match self.inner.connection.request(Request::ReaderLease).await? {
            Answer::ReaderLease(grant) => {
                let lapsed = grant.lapsed.iter();
                lapsed.for_each(|&shard| self.inner.connection.terms.leave(shard));
                Ok(grant)
            }
            _ => Err(StoreError::Protocol {
                what: "the answer to a request for a reader's lease is no lease",
            }),
        }
    }

    /// The number of the session. No two sessions have the same.
    pub(crate) fn session(&self) -> u64 {
        self.inner.connection.welcome.session.get()
    }

    /// Gives back the room in the log that this client holds, if the client did not use it for `unused_ns`.
    pub(crate) fn give_up_unused(&self, unused_ns: Nanoseconds) {
        self.inner.writer.leases.give_up_unused(unused_ns);
    }

    /// Whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.connection.is_closed()
    }

    /// The UUID of the server's pool, as a number.
    pub fn pool(&self) -> u128 {
        self.inner.connection.format.uuid
    }

    /// The division of the pool's keys among its shards.
    pub(crate) fn keys(&self) -> KeyMap {
        self.inner.connection.welcome.keys()
    }

    /// The number of shards.
    pub fn shards(&self) -> u32 {
        self.inner.connection.welcome.keys().shards
    }

    /// The shard of `key`.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> u32 {
        self.inner.connection.welcome.keys().route(key).shard
    }

    /// Reads the value of `key` into `value` and returns its version. Returns `None` if the key is absent; the content
    /// of `value` is then unspecified. The returned value is durable, and was the key's value at some moment during the
    /// call.
    #[inline]
    pub fn get<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Option<u64>, StoreError>> + use<'a> {
        Get::new(&self.inner.reader, key, value)
    }

    /// Reads the value of `key` into `value`, and returns its version and expiry, like [`Client::get`].
    pub async fn find(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<FoundKey>, StoreError> {
        let start = self.inner.connection.begin_call();
        let found = match self.inner.reader.find_in_call_with_expiry(key, value) {
            Some(found) => {
                self.inner.connection.port.take_turn().await;
                Ok(found)
            }
            None => self.inner.reader.find(key, value).await,
        };
        self.inner.connection.end_call(TimedCall::Read(1), start);
        found
    }

    /// The server's time in milliseconds since 1970 in UTC, or a few milliseconds later: a key that is put with that
    /// moment and a second more is present for a second. The client asks the server if it has not done so within ten
    /// seconds.
    pub async fn server_time_ms(&self) -> Result<u64, StoreError> {
        self.time_of_ms(0).await
    }

    /// The number of keys of `shard`.
    pub(crate) async fn keys_of_shard(&self, shard: u32) -> Result<u64, StoreError> {
        self.inner.connection.keys_of_shard(shard).await
    }

    /// The time of `shard`, like [`Client::server_time_ms`]. Each shard of a cluster has a time of its own.
    pub(crate) async fn time_of_ms(&self, shard: u32) -> Result<u64, StoreError> {
        self.inner.connection.time_of_ms(shard).await
    }

    /// Changes the expiry of `key`, or with `None` removes it, if the key has the version `version`; `None`: whatever
    /// version it has. The value stays. Returns the key's new version, or [`Written::Conflict`] with the present one.
    ///
    /// The call reads the value and puts it again.
    pub async fn touch(
        &self,
        key: &[u8],
        expires: Option<Expiry>,
        version: Option<u64>,
    ) -> Result<Written, StoreError> {
        touch(
            (expires, version),
            async |value| self.find(key, value).await,
            async |value, rules| self.put_if(key, value, rules).await,
        )
        .await
    }

    /// Reads as [`Client::get`] does, without a future, if READs are executed in the call and the key lies in its home
    /// bucket. `None`: the answer needs [`Client::get`].
    #[inline]
    pub(crate) fn get_in_call(
        &self,
        route: Route,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Option<Option<u64>> {
        self.inner.reader.get_in_call(route, key, value)
    }

    /// Reads as [`Client::get_in_call`] does, and also returns the expiry of the key.
    pub(crate) fn find_in_call(&self, key: &[u8], value: &mut Vec<u8>) -> Option<Option<FoundKey>> {
        self.inner.reader.find_in_call_with_expiry(key, value)
    }

    /// Whether it is the turn of the task of `context` to go on. If not, the task is woken, and must return pending.
    #[inline]
    pub(crate) fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        self.inner.connection.port.poll_turn(context)
    }

    /// Reads the values of `keys` with two doorbells, or with one if the places of all keys are remembered. Each key is
    /// read as by [`Client::get`]; the values together are not a snapshot.
    pub async fn multi_get(&self, keys: &[&[u8]], values: &mut Values) -> Result<(), StoreError> {
        let found = self.multi_get_within(keys, usize::MAX, values).await?;
        assert_eq!(found, keys.len(), "the size is not bounded");
        Ok(())
    }

    /// Like [`Client::multi_get`], for as many of the first keys as have values within `size_max` bytes. Returns the
    /// number of keys that were read; `values` holds the values of these keys only.
    ///
    /// Records of up to 4 KiB do not count. A longer record is read only while there is room for the longest value.
    /// With a `size_max` of [`VALUE_SIZE_MAX`](crate::limits::VALUE_SIZE_MAX), at least one key is read beside the
    /// short records; with [`WHOLE_VALUE_SIZE_MAX`](crate::limits::WHOLE_VALUE_SIZE_MAX), at least one unless its value
    /// is in chunks; with 0, only short records are read.
    pub async fn multi_get_within(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, StoreError> {
        let start = self.inner.connection.begin_call();
        let found = self.inner.reader.find_many(keys, size_max, values).await;
        let read = *found.as_ref().unwrap_or(&keys.len());
        self.inner.connection.end_call(TimedCall::Read(read), start);
        found
    }

    /// Finds all keys.
    pub async fn entries(&self) -> Result<Entries, StoreError> {
        self.entries_from(0, usize::MAX).await
    }

    /// Finds the keys of version `from` and higher, at most `count` of them, those with the lowest versions. The call
    /// reads the whole index, and takes 24 bytes of memory for each key found. [`Entries::next_version`] is the version
    /// from which to continue.
    ///
    /// A key that is written meanwhile gets a higher version, so a later call finds that key again.
    pub async fn entries_from(&self, from: u64, count: usize) -> Result<Entries, StoreError> {
        self.scan().entries(from, count).await
    }

    /// Finds all keys of one shard.
    pub(crate) async fn entries_of_shard(&self, shard: u32) -> Result<Entries, StoreError> {
        let shards = shard..shard + 1;
        self.scan().entries_in(shards, 0, usize::MAX).await
    }

    /// Holds the present version of the store, so that all keys can be read as they are now while others write.
    /// Records up to the version `base`, which an earlier hold has read, come as versions alone; 0: all records come.
    ///
    /// # Errors
    /// [`StoreError::NoHold`]: the server is of a cluster, or its clients publish. [`StoreError::BaseBeyond`]: the
    /// store has not got as far as the base.
    pub async fn hold(&self, base: u64) -> Result<Hold, StoreError> {
        Hold::begin(self.clone(), base).await
    }

    pub(super) fn scan(&self) -> Scan<'_> {
        Scan::new(&self.inner.memory, &self.inner.reader)
    }

    /// Stores `value` under `key` and returns its version. When the call returns, the write is durable as declared and
    /// visible to every client. On an error see [`StoreError::effect`].
    ///
    /// Puts of one client that are in flight together are committed in the order in which they were first polled,
    /// unless the server sends a put back for want of staging memory (copying clients of a pool that is nearly full). A
    /// value in chunks is committed after its chunks, so later puts overtake it.
    ///
    /// A value that fits no record is stored in chunks: one put for each chunk, and one that names them. A crash, or a
    /// future that is dropped, leaves the earlier value or the new one; its chunks take room for ten minutes at most.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, StoreError> {
        let start = self.inner.connection.begin_call();
        let result = match self.put_in_call(key, value).await {
            Some(version) => Ok(version),
            None => self.inner.writer.put(key, value).await,
        };
        self.inner.connection.end_call(TimedCall::Write, start);
        result
    }

    /// Like `put`, but does not retry if the server has no room for the record at the moment: the call returns `None`,
    /// and nothing was done. The call serves clients that put a key again while a put of that key is in flight. The
    /// puts that succeed are committed in the order in which they were first polled, so the last of them decides.
    pub async fn put_once(&self, key: &[u8], value: &[u8]) -> Result<Option<u64>, StoreError> {
        self.inner.writer.check_sizes(key, value)?;
        let start = self.inner.connection.begin_call();
        let result = match self.put_in_call(key, value).await {
            Some(version) => Ok(Some(version)),
            None => self.inner.writer.put_once(key, value).await,
        };
        self.inner.connection.end_call(TimedCall::Write, start);
        result
    }

    #[inline]
    async fn put_in_call(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let version = self.inner.writer.put_in_call(key, value)?;
        self.inner.connection.port.take_turn().await;
        Some(version)
    }

    /// Stores all `pairs`. Leaves the version or the error of each pair in `outcomes`, in the order of the pairs. Each
    /// pair is a put as by [`Client::put`], and puts of one key are committed in the order of the pairs, unless the
    /// server sends a put back for want of staging memory (copying clients of a pool that is nearly full): that put is
    /// sent again, and later puts may overtake it. The puts together are not a transaction, so any of the puts without
    /// an answer may survive a crash. If the future is dropped, any of the puts may have been done.
    pub async fn multi_put(&self, pairs: &[Pair<'_>], outcomes: &mut Vec<Result<u64, StoreError>>) {
        self.inner.writer.put_many(pairs, outcomes).await;
    }

    /// Like `put`, if the condition of `rules` holds at the moment of the write; the key then has the expiry of
    /// `rules`. Of two concurrent writes that name the same version, one succeeds.
    pub async fn put_if(
        &self,
        key: &[u8],
        value: &[u8],
        rules: impl Into<PutRules>,
    ) -> Result<Written, StoreError> {
        let PutRules { condition, expires } = rules.into();
        let draft = Draft {
            condition,
            expires,
            ..plain_put(key, value)
        };
        self.store(&draft).await
    }

    /// Like [`Client::put_if`], and safe to retry: with the same token the write takes effect at most once, over any
    /// connection to this pool, also after a restart of its server. A retry of a write that was done returns its
    /// version.
    pub async fn put_with(
        &self,
        token: &mut Token,
        key: &[u8],
        value: &[u8],
        rules: impl Into<PutRules>,
    ) -> Result<Written, StoreError> {
        let PutRules { condition, expires } = rules.into();
        self.inner.writer.check_sizes(key, value)?;
        if let Some(version) = token.begin_attempt(&self.inner.connection, key).await? {
            return Ok(Written::Done(version));
        }
        let draft = Draft {
            condition,
            token: token.number(),
            expires,
            ..plain_put(key, value)
        };
        let written = self.store(&draft).await;
        token.end_attempt(&written);
        written.inspect(|&written| self.note_written(key, written))
    }

    /// Applies a batch: does all of its changes, if each of its expectations holds, or nothing. When the call returns
    /// [`Applied::Done`], all changes are durable as declared and visible to every client. After a crash of the server
    /// or of this client all changes are there, or none.
    ///
    /// Changes become visible one after the other: a reader that reads several keys meanwhile may see some changes and
    /// not yet others. A batch without changes that expects the versions that were read says whether the values were
    /// current together.
    ///
    /// # Errors
    /// [`StoreError::BatchKeys`], [`StoreError::BatchNames`] and [`StoreError::BatchSize`] name the limits.
    /// [`StoreError::BatchShards`]: the server is a node of a cluster, and the keys are of several shards.
    pub async fn apply(&self, batch: &Batch) -> Result<Applied, StoreError> {
        self.apply_as(0, batch).await
    }

    /// Like [`Client::apply`], and safe to retry; see [`Client::put_with`]. The batch of each attempt must be the same.
    pub async fn apply_with(
        &self,
        token: &mut Token,
        batch: &Batch,
    ) -> Result<Applied, StoreError> {
        let Some(key) = batch.first_changed() else {
            return self.apply(batch).await;
        };
        check_batch(&self.inner.writer, batch)?;
        if let Some(version) = token.begin_attempt(&self.inner.connection, key).await? {
            return Ok(batch.done(version));
        }
        let applied = self.apply_as(token.number(), batch).await;
        token.end_attempt(&applied);
        applied.inspect(|applied| {
            if let Applied::Done(versions) = applied {
                self.note_written(key, Written::Done(versions.start));
            }
        })
    }

    async fn apply_as(&self, token: u64, batch: &Batch) -> Result<Applied, StoreError> {
        let start = self.inner.connection.begin_call();
        let result = apply(&self.inner.writer, token, batch).await;
        self.inner.connection.end_call(TimedCall::Write, start);
        result
    }

    /// Notes the version of a write with a token, for the next token of the key's shard.
    fn note_written(&self, key: &[u8], written: Written) {
        if let Written::Done(version) = written {
            let terms = &self.inner.connection.terms;
            terms.note(self.shard_of(key), version);
        }
    }

    async fn store(&self, draft: &Draft<'_>) -> Result<Written, StoreError> {
        let start = self.inner.connection.begin_call();
        let result = match self.conflict_before(draft).await {
            Some(conflict) => Ok(conflict),
            None => self.inner.writer.store(draft, Tried::Nothing).await,
        };
        self.inner.connection.end_call(TimedCall::Write, start);
        result
    }

    /// The conflict of a put that would send chunks and be refused then, as far as a read tells. `None`: the server has
    /// to decide.
    async fn conflict_before(&self, draft: &Draft<'_>) -> Option<Written> {
        if draft.condition == Condition::None || self.inner.writer.fits_record(draft) {
            return None;
        }
        // The server can do the put even if the present value cannot be read.
        let present = Box::pin(self.inner.reader.version_of(draft.key)).await;
        let present = present.ok()?;
        (!draft.condition.holds(present)).then_some(Written::Conflict(present))
    }

    /// Removes `key` and returns whether the key was there. The removal is durable and visible when the call returns.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        match self.delete_if(key, Condition::None).await? {
            Some(Written::Done(_)) => Ok(true),
            Some(Written::Conflict(_)) => Err(StoreError::Protocol {
                what: "an unconditional delete cannot conflict",
            }),
            None => Ok(false),
        }
    }

    /// Removes `key` if `condition` holds. Returns `None` if there was nothing to remove. [`Condition::Absent`] removes
    /// nothing: a key that is present is a conflict.
    pub async fn delete_if(
        &self,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, StoreError> {
        self.remove(0, key, condition).await
    }

    /// Like [`Client::delete_if`], and safe to retry; see [`Client::put_with`].
    pub async fn delete_with(
        &self,
        token: &mut Token,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, StoreError> {
        check_key(key)?;
        if let Some(version) = token.begin_attempt(&self.inner.connection, key).await? {
            return Ok(Some(Written::Done(version)));
        }
        let removed = self.remove(token.number(), key, condition).await;
        token.end_attempt(&removed);
        removed.inspect(|&removed| {
            if let Some(written) = removed {
                self.note_written(key, written);
            }
        })
    }

    async fn remove(
        &self,
        token: u64,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, StoreError> {
        let start = self.inner.connection.begin_call();
        let result = self.inner.writer.remove(token, key, condition).await;
        self.inner.connection.end_call(TimedCall::Write, start);
        result
    }

    /// A name for a write that has not been sent yet. The call does not contact the server.
    pub fn token(&self) -> Token {
        self.inner.writer.token()
    }

    /// The server's report of itself.
    pub async fn stat(&self) -> Result<Stat, StoreError> {
        self.inner.connection.stat().await
    }

    /// Everything that the server counts, including the calls of this client.
    pub async fn metrics(&self) -> Result<Metrics, StoreError> {
        self.report().await?;
        self.inner.connection.metrics().await
    }

    /// Keys that this client has read by their remembered places, in one round trip, and all other keys that this
    /// client has read.
    pub fn location_counts(&self) -> (u64, u64) {
        self.inner.connection.meter.location_counts()
    }

    /// Reports the calls since the last report to the server. A busy client reports without this call, and so does a
    /// client that is closed; the call is for clients that pause.
    pub async fn report(&self) -> Result<(), StoreError> {
        self.inner.connection.report().await
    }

    /// The memory that this client accesses with one-sided READs. `None`: the index of the first shard is not open, as
    /// in a client that has entered only other shards of a node.
    pub fn yardstick(&self) -> Option<Yardstick> {
        let memory = &self.inner.memory;
        let index = memory.index(0)?;
        Some(Yardstick {
            queue_pair: memory.connection.qp,
            index: index.address(0),
            index_size: table_size(index.bits),
            log: memory.log_address(0),
            tag_key: memory.connection.format.tag_key,
        })
    }
}

impl Entries {
    /// Replaces the content of `into` by the next records, in order. `into` is empty at the end.
    pub async fn next(&mut self, client: &Client, into: &mut Vec<Entry>) -> Result<(), StoreError> {
        client.scan().next(self, into).await
    }
}
