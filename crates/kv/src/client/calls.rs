//! The calls of a client: each is counted, and done by the component that it is for.

use std::future::Future;

use stonecast_log::{Condition, Draft};

use super::meter::Call;
use super::publisher::plain_put;
use super::reader::{Get, Values};
use super::scan::{Entries, Entry, Scan};
use super::writer::{Pair, Token, Tried, Written};
use super::{Client, Yardstick};
use crate::error::StoreError;
use crate::metrics::{Metrics, PAGES};
use crate::stat::{COUNTERS, Stat};
use crate::wire::limits::check_key;
use crate::wire::{Answer, Request, table_size};

impl Client {
    /// Reads the value of `key` into `value` and returns its version; `None` if the key is absent (then `value` holds
    /// nothing of meaning). The returned value is durable, and was the key's value at some moment during the call.
    #[inline]
    pub fn get<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Option<u64>, StoreError>> + use<'a> {
        Get::new(&self.inner.reader, key, value)
    }

    /// Reads the values of `keys`, all with two doorbells, or with one if all their places are remembered. Each key is read
    /// as by [`Client::get`]; together they are no snapshot.
    pub async fn multi_get(&self, keys: &[&[u8]], values: &mut Values) -> Result<(), StoreError> {
        let found = self.multi_get_within(keys, usize::MAX, values).await?;
        assert_eq!(found, keys.len(), "nothing bounds them");
        Ok(())
    }

    /// As [`Client::multi_get`], for as many of the keys, from the first one on, as `size_max` bytes of values have room for.
    /// Returns the number of keys that were read; `values` holds the values of no other key.
    ///
    /// Records of up to 4 KiB need no room. A longer one is read as long as there is room for the longest value, so with
    /// `size_max` of [`VALUE_SIZE_MAX`](crate::limits::VALUE_SIZE_MAX) beside the short ones at least one key is read, and with
    /// 0 only short records are.
    pub async fn multi_get_within(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, StoreError> {
        let start = self.inner.connection.begin_call();
        let found = self.inner.reader.find_many(keys, size_max, values).await;
        let read = *found.as_ref().unwrap_or(&keys.len());
        self.inner.connection.end_call(Call::Read(read), start);
        found
    }

    /// Finds all keys.
    pub async fn entries(&self) -> Result<Entries, StoreError> {
        self.entries_from(0, usize::MAX).await
    }

    /// Finds those keys of version `from` and higher, at most `count` of the lowest versions: 24 bytes of memory each, while the
    /// whole index is read. [`Entries::next_version`] says where to continue.
    ///
    /// A key that is written meanwhile gets a higher version, so that it is found again.
    pub async fn entries_from(&self, from: u64, count: usize) -> Result<Entries, StoreError> {
        self.scan().entries(from, count).await
    }

    pub(super) fn scan(&self) -> Scan<'_> {
        Scan::new(&self.inner.memory, &self.inner.reader.generations)
    }

    /// Stores `value` under `key` and returns its version. When it returns, the write is durable as declared and visible
    /// to every client. On an error see [`StoreError::effect`].
    ///
    /// Puts of one client that are in flight together are committed in the order in which they were first polled, as long
    /// as the server does not send one back for want of staging memory (copying clients of a pool that is nearly full).
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, StoreError> {
        let start = self.inner.connection.begin_call();
        let result = match self.put_in_call(key, value).await {
            Some(version) => Ok(version),
            None => self.inner.writer.put(key, value).await,
        };
        self.inner.connection.end_call(Call::Write, start);
        result
    }

    /// Like `put`, but does not try again if the server has no room for the record at the moment: it returns `None`, and nothing
    /// was done. It serves clients that put a key again while a put of that key is in flight: those puts that are done are done
    /// in the order in which they were first polled, so the last one decides.
    pub async fn put_once(&self, key: &[u8], value: &[u8]) -> Result<Option<u64>, StoreError> {
        self.inner.writer.check_sizes(key, value)?;
        let start = self.inner.connection.begin_call();
        let result = match self.put_in_call(key, value).await {
            Some(version) => Ok(Some(version)),
            None => self.inner.writer.put_once(key, value).await,
        };
        self.inner.connection.end_call(Call::Write, start);
        result
    }

    #[inline]
    async fn put_in_call(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let version = self.inner.writer.put_in_call(key, value)?;
        self.inner.connection.port.take_turn().await;
        Some(version)
    }

    /// Stores all `pairs`, and leaves in `outcomes`, in their order, the version of each, or why it was not stored. Each is a put as
    /// by [`Client::put`], those of one key in the order of the pairs, as long as the server does not send one back for want of staging
    /// memory (copying clients of a pool that is nearly full): that one is sent again, and those behind it may overtake it. Together they
    /// are no transaction, so a crash may leave any of those that were not answered. If the future is dropped, any of them may have been done.
    pub async fn multi_put(&self, pairs: &[Pair<'_>], outcomes: &mut Vec<Result<u64, StoreError>>) {
        self.inner.writer.put_many(pairs, outcomes).await;
    }

    /// Like `put`, if `condition` holds at the moment of the write. Of two concurrent writes that name the same version
    /// one is done.
    pub async fn put_if(
        &self,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Written, StoreError> {
        let draft = plain_put(key, value);
        self.store(&Draft { condition, ..draft }).await
    }

    /// Like [`Client::put_if`], and safe to retry: with the same token the write takes effect at most once, over any
    /// connection to this pool, also after a restart of its server. A retry of a write that was done returns its version.
    pub async fn put_with(
        &self,
        token: &mut Token,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Written, StoreError> {
        self.inner.writer.check_sizes(key, value)?;
        if let Some(version) = token.begin_attempt(&self.inner.connection).await? {
            return Ok(Written::Done(version));
        }
        let (draft, token) = (plain_put(key, value), token.number());
        self.store(&Draft {
            condition,
            token,
            ..draft
        })
        .await
    }

    async fn store(&self, draft: &Draft<'_>) -> Result<Written, StoreError> {
        let start = self.inner.connection.begin_call();
        let result = self.inner.writer.store(draft, Tried::Nothing).await;
        self.inner.connection.end_call(Call::Write, start);
        result
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

    /// Removes `key` if `condition` holds. `None`: there was nothing to remove. With [`Condition::Absent`] nothing is ever
    /// removed: a key that is there is a conflict.
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
        if let Some(version) = token.begin_attempt(&self.inner.connection).await? {
            return Ok(Some(Written::Done(version)));
        }
        self.remove(token.number(), key, condition).await
    }

    async fn remove(
        &self,
        token: u64,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, StoreError> {
        let start = self.inner.connection.begin_call();
        let result = self.inner.writer.remove(token, key, condition).await;
        self.inner.connection.end_call(Call::Write, start);
        result
    }

    /// A name for a write that has not been sent yet. Costs nothing.
    pub fn token(&self) -> Token {
        self.inner.writer.token()
    }

    /// The server's report of itself.
    pub async fn stat(&self) -> Result<Stat, StoreError> {
        self.page(0).await.map(|words| Stat::from_words(&words))
    }

    /// Everything that the server counts, including the calls of this client.
    pub async fn metrics(&self) -> Result<Metrics, StoreError> {
        self.report().await?;
        let mut pages = [[0; COUNTERS]; PAGES as usize];
        for (number, page) in (0..).zip(&mut pages) {
            *page = self.page(number).await?;
        }
        Ok(Metrics::from_pages(&pages))
    }

    async fn page(&self, page: u8) -> Result<[u64; COUNTERS], StoreError> {
        match self
            .inner
            .connection
            .request(Request::Stat { page })
            .await?
        {
            Answer::Stat(words) => Ok(words),
            _ => Err(StoreError::Protocol {
                what: "the answer to a stat request is no report",
            }),
        }
    }

    /// Keys that this client has read by their remembered places, in one round trip, and keys that it has read otherwise.
    pub fn location_counts(&self) -> (u64, u64) {
        self.inner.connection.meter.location_counts()
    }

    /// Reports to the server what this client has done since its last report. A busy client reports by itself, and so does a
    /// client that is closed; this call is for clients that pause.
    pub async fn report(&self) -> Result<(), StoreError> {
        self.inner.connection.report().await
    }

    /// Where this client's one-sided reads go to.
    pub fn yardstick(&self) -> Yardstick {
        let memory = &self.inner.memory;
        Yardstick {
            queue_pair: memory.connection.qp,
            index: memory.index_address(0),
            index_size: table_size(memory.access().index_bits),
            log: memory.log_address(0),
            tag_key: memory.connection.format.tag_key,
        }
    }
}

impl Entries {
    /// Reads the next records, in order, replacing what `into` holds. Empty at the end.
    pub async fn next(&mut self, client: &Client, into: &mut Vec<Entry>) -> Result<(), StoreError> {
        client.scan().next(self, into).await
    }
}
