//! The store as commands see it: one connection of this thread, with counts, and with bounds on the operations under
//! way.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use stonecast_kv::{
    Applied, Batch, Condition, Copies, Entry, FoundKey, PutRules, Stat, Values, Written, limits,
};

use super::backend::{Backend, Entries};
use super::error::{CommandError, Failure};
use crate::counters::{Counters, Lookups};
use crate::fifo::{Budget, Share};

/// One connection to the store. An operation that waits for its turn is small: the client's call, which takes
/// kilobytes, is made only when the turn has come.
pub struct Store {
    backend: Backend,
    counters: Arc<Counters>,
    budget: Rc<Budget>,
    /// Values that were read to be changed, until they are written.
    changing: Rc<Budget>,
    /// The number of requests that the store has not answered. The thread's sleeper reads this number.
    in_flight: Rc<Cell<usize>>,
    is_lost: Cell<bool>,
}

/// The most writes of this thread that wait for an answer: as many as the store's client takes, less the requests that
/// the client itself needs for leases, so that no write waits in the client out of turn.
const WRITES_MAX: usize = limits::IN_FLIGHT_MAX - 16;
/// The most bytes of those writes, which fit the client's ring of 4 MiB wherever the end of the ring lies.
const WRITE_BYTES_MAX: usize = 2 << 20;
/// The bounds on the values of this thread that are being changed: their number, and their bytes.
const CHANGES_MAX: usize = 1 << 20;
const CHANGING_BYTES_MAX: usize = limits::VALUE_SIZE_MAX;
/// The bytes of a record beside key and value, rounded up.
const RECORD_OVERHEAD: usize = 128;

impl Store {
    /// The store behind `backend`.
    pub fn new(backend: Backend, counters: Arc<Counters>, in_flight: Rc<Cell<usize>>) -> Self {
        let budget = Rc::new(Budget::new(WRITES_MAX, WRITE_BYTES_MAX));
        let changing = Rc::new(Budget::new(CHANGES_MAX, CHANGING_BYTES_MAX));
        Self {
            backend,
            counters,
            budget,
            changing,
            in_flight,
            is_lost: Cell::new(false),
        }
    }

    /// Finds all keys.
    pub async fn entries(&self) -> Result<Entries, CommandError> {
        let _under_way = UnderWay::begin(&self.in_flight);
        self.checked(self.backend.entries().await)
    }

    /// Reads the next entries into `page`, in place of its content. At the end, `page` is empty.
    pub async fn next_entries(
        &self,
        entries: &mut Entries,
        page: &mut Vec<Entry>,
    ) -> Result<(), CommandError> {
        let _under_way = UnderWay::begin(&self.in_flight);
        self.checked(self.backend.next_entries(entries, page).await)
    }

    /// Reports the operations of this thread to the store, so that the store's counts are right while this thread is
    /// idle.
    pub async fn report(&self) {
        let _under_way = UnderWay::begin(&self.in_flight);
        self.backend.report().await;
    }

    /// The cursor of `SCAN` after an entry.
    pub fn cursor_behind(&self, entry: &Entry) -> u64 {
        self.backend.cursor_behind(entry)
    }

    /// Returns whether an entry comes after the entries that a cursor covers.
    pub fn is_behind(&self, entry: &Entry, cursor: u64) -> bool {
        self.backend.is_behind(entry, cursor)
    }

    /// Returns whether the connection has ended.
    pub fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Reads the values of keys for a reply, all at once: from the first key on, as many as fit into `size_max` bytes.
    /// Short records need no room. Returns the number of keys that were read.
    pub async fn get_many(
        &self,
        keys: &[&[u8]],
        size_max: usize,
        values: &mut Values,
    ) -> Result<usize, CommandError> {
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = self.backend.get_many(keys, size_max, values).await;
        if let Ok(found) = result {
            let mut lookups = Lookups::default();
            (0..found).for_each(|index| lookups.note(values.get(index).is_some()));
            self.count_lookups(lookups);
        }
        self.checked(result)
    }

    /// Counts keys that were looked up for replies without `get_many`.
    pub fn count_lookups(&self, lookups: Lookups) {
        self.counters.add_lookups(lookups);
    }

    /// The time by which `key` expires, in milliseconds since 1970. The client asks the server only now and then.
    pub async fn time_ms(&self, key: &[u8]) -> Result<u64, CommandError> {
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = Box::pin(self.backend.time_ms(key)).await;
        self.checked(result)
    }

    /// Reads the value of a key that is to be changed, and the key's version and expiry if the key exists. The share
    /// counts the value's bytes among the bytes that this thread changes, as long as the share lives.
    pub async fn get(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<(Option<FoundKey>, Share), CommandError> {
        let mut share = self.changing.take(limits::WHOLE_VALUE_SIZE_MAX).await;
        let mut found = self.find(key, value).await?;
        if value.len() > limits::WHOLE_VALUE_SIZE_MAX {
            // The value waits for its share in the store.
            *value = Vec::new();
            drop(share);
            share = self.changing.take(limits::VALUE_SIZE_MAX).await;
            found = self.find(key, value).await?;
        }
        share.shrink(value.capacity());
        Ok((found, share))
    }

    async fn find(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<FoundKey>, CommandError> {
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = Box::pin(self.backend.get(key, value)).await;
        self.checked(result)
    }

    /// Stores a value if the condition of `rules` holds. When this returns, the write is durable as the store has
    /// declared.
    pub async fn put(
        &self,
        key: &[u8],
        value: &[u8],
        rules: impl Into<PutRules>,
    ) -> Result<Written, CommandError> {
        let _share = self.budget.take(share(key, value)).await;
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = Box::pin(self.backend.put(key, value, rules.into())).await;
        self.counters
            .conflicts
            .add(u64::from(matches!(result, Ok(Written::Conflict(_)))));
        self.checked(result)
    }

    /// Stores a value that another put of the same step overwrites. Returns false if the value was not stored: the put
    /// that follows stands for this one.
    pub async fn put_at_once(&self, key: &[u8], value: &[u8]) -> Result<bool, CommandError> {
        let _share = self.budget.take(share(key, value)).await;
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = Box::pin(self.backend.put_at_once(key, value)).await;
        self.checked(result)
    }

    /// Deletes a key if `condition` holds. Returns `None` if the key was absent.
    pub async fn delete(
        &self,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, CommandError> {
        let _share = self.budget.take(key.len() + RECORD_OVERHEAD).await;
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = Box::pin(self.backend.delete(key, condition)).await;
        self.counters
            .conflicts
            .add(u64::from(matches!(result, Ok(Some(Written::Conflict(_))))));
        self.checked(result)
    }

    /// Whether the store is a server that is alone.
    pub fn is_alone(&self) -> bool {
        self.backend.is_alone()
    }

    /// Applies a batch, whose keys are all of one shard in a cluster. When this returns *done*, all changes are durable
    /// as the store has declared.
    pub async fn apply(&self, batch: &Batch) -> Result<Applied, CommandError> {
        let _share = self.budget.take(batch.size().min(WRITE_BYTES_MAX)).await;
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = Box::pin(self.backend.apply(batch)).await;
        self.counters.conflicts.add(u64::from(matches!(
            result,
            Ok(Applied::Contradicted { .. })
        )));
        self.checked(result)
    }

    /// The shard of `key` in a cluster; alone there is one.
    pub fn shard_of(&self, key: &[u8]) -> u32 {
        self.backend.shard_of(key)
    }

    /// The copies that the acknowledged writes to `shards` have; see
    /// [`ClusterClient::copies`](stonecast_kv::ClusterClient::copies).
    pub async fn copies(&self, shards: &[u32]) -> Result<Copies, CommandError> {
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = self.backend.copies(shards).await;
        self.checked(result)
    }

    /// The number of keys.
    pub async fn keys(&self) -> Result<u64, CommandError> {
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = self.backend.keys().await;
        self.checked(result)
    }

    /// The server's statistics.
    pub async fn stat(&self) -> Result<Stat, CommandError> {
        let _under_way = UnderWay::begin(&self.in_flight);
        let result = self.backend.stat().await;
        self.checked(result)
    }

    /// Notes whether the connection has ended.
    fn checked<T>(&self, result: Result<T, Failure>) -> Result<T, CommandError> {
        result.map_err(|failure| {
            if failure.is_final {
                self.is_lost.set(true);
            }
            CommandError::Store(failure)
        })
    }
}

/// Bytes of the budget that a put takes.
fn share(key: &[u8], value: &[u8]) -> usize {
    (key.len() + value.len() + RECORD_OVERHEAD).min(WRITE_BYTES_MAX)
}

/// Counts a request as under way as long as it lives.
pub struct UnderWay<'a>(&'a Cell<usize>);

impl<'a> UnderWay<'a> {
    /// Counts a request that begins.
    pub fn begin(in_flight: &'a Cell<usize>) -> Self {
        in_flight.set(in_flight.get() + 1);
        Self(in_flight)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
