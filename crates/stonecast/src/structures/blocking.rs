//! Structures for programs without `async`: each call waits.

use std::num::NonZeroU64;
use std::ops::RangeBounds;
use std::rc::Rc;
use std::time::Duration;

use super::attempt::{Attempt, Once};
use super::consumer::{Consumer, TakenJob};
use super::domain::{Domain, Outcome, Transaction};
use super::error::Error;
use super::look::{Found, Look};
use super::member::Member;
use super::reader::{Range, Reader, Rest};
use super::scan::Scan;
use super::session::{Connection, DomainState, Listed, Metrics, Session, connect};
use super::snapshot::Snapshot;
use super::types::{
    Cursor, Entry, HashTable, Key, Keyed, Ordered, Queue, Sequence, Shape, Value, Versioned,
};
use super::writer::Writer;

/// Connects to the back-end at `url` for calls that wait.
///
/// ```
/// use stonecast::Durability;
/// use stonecast::structures::{Queue, Server, connect_blocking};
///
/// # let folder = tempfile::tempdir()?;
/// let server = Server::builder(folder.path().join("pool"))
///     .durability(Durability::Process)
///     .capacity(32 << 20)
///     .serve()?;
/// let session = connect_blocking(&server.address().to_string())?;
/// let mut jobs = session.writer::<Queue<String>>("jobs")?;
/// jobs.push(&"paint the door".to_owned())?;
/// assert_eq!(jobs.pop()?.as_deref(), Some("paint the door"));
/// assert_eq!(jobs.pop()?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`connect`].
pub fn connect_blocking(url: &str) -> Result<BlockingSession, Error> {
    Ok(BlockingSession {
        connection: Rc::new(connect(url)?),
    })
}

/// A session whose calls wait. A session belongs to the thread that made it.
#[derive(Clone)]
pub struct BlockingSession {
    connection: Rc<Connection>,
}

impl BlockingSession {
    /// Waits for [`Session::writer`](super::Session::writer): becomes the writer of the structure `name`, which is made
    /// if it does not exist.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::writer`](super::Session::writer).
    pub fn writer<S: Shape>(&self, name: &str) -> Result<BlockingWriter<S>, Error> {
        let writer = self
            .connection
            .run(async |session| session.writer(name).await)?;
        let connection = self.connection.clone();
        Ok(BlockingWriter { connection, writer })
    }

    /// Waits for [`Session::reader`](super::Session::reader): opens a reader of the structure `name`.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::reader`](super::Session::reader).
    pub fn reader<S: Shape>(&self, name: &str) -> Result<BlockingReader<S>, Error> {
        let reader = self
            .connection
            .run(async |session| session.reader(name).await)?;
        let connection = self.connection.clone();
        Ok(BlockingReader { connection, reader })
    }

    /// Waits for [`Session::reader_caching`](super::Session::reader_caching): opens a reader that caches inner nodes of
    /// at most `cache_size` bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::reader_caching`](super::Session::reader_caching).
    pub fn reader_caching<S: Shape>(
        &self,
        name: &str,
        cache_size: u64,
    ) -> Result<BlockingReader<S>, Error> {
        let run = async |session: &Session| session.reader_caching(name, cache_size).await;
        let reader = self.connection.run(run)?;
        let connection = self.connection.clone();
        Ok(BlockingReader { connection, reader })
    }

    /// Waits for [`Session::domain`](super::Session::domain): becomes the writer of the lock domain `name`, which is
    /// made if it does not exist.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::domain`](super::Session::domain).
    pub fn domain(&self, name: &str) -> Result<BlockingDomain, Error> {
        let run = async |session: &Session| session.domain(name).await;
        let domain = self.connection.run(run)?;
        let connection = self.connection.clone();
        Ok(BlockingDomain { connection, domain })
    }

    /// Waits for [`Session::consumer`](super::Session::consumer): becomes the consumer of the queue `queue` at the
    /// cursor `cursor`.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::consumer`](super::Session::consumer).
    pub fn consumer<V: Value>(
        &self,
        queue: &str,
        cursor: &str,
    ) -> Result<BlockingConsumer<V>, Error> {
        let run = async |session: &Session| session.consumer(queue, cursor).await;
        let consumer = self.connection.run(run)?;
        let connection = self.connection.clone();
        Ok(BlockingConsumer {
            connection,
            consumer,
        })
    }

    /// Waits for [`Session::snapshot`](super::Session::snapshot): takes a snapshot of the lock domain `domain`.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::snapshot`](super::Session::snapshot).
    pub fn snapshot(&self, domain: &str) -> Result<BlockingSnapshot, Error> {
        let run = async |session: &Session| session.snapshot(domain).await;
        let snapshot = self.connection.run(run)?;
        let connection = self.connection.clone();
        Ok(BlockingSnapshot {
            connection,
            snapshot,
        })
    }

    /// Waits for [`Session::list`](super::Session::list), which lists the structures of all lock domains.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::list`](super::Session::list).
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        self.connection.run(async |session| session.list().await)
    }

    /// Waits for [`Session::stat`](super::Session::stat), which returns the states of all lock domains.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::stat`](super::Session::stat).
    pub fn stat(&self) -> Result<Vec<DomainState>, Error> {
        self.connection.run(async |session| session.stat().await)
    }

    /// Waits for [`Session::metrics`](super::Session::metrics), which returns the state and the work of the back-end.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::metrics`](super::Session::metrics).
    pub fn metrics(&self) -> Result<Metrics, Error> {
        self.connection.run(async |session| session.metrics().await)
    }
}

/// A snapshot whose calls wait.
pub struct BlockingSnapshot {
    connection: Rc<Connection>,
    snapshot: Snapshot,
}

impl BlockingSnapshot {
    /// Waits for [`Snapshot::reader`]: opens a reader of a structure of the snapshot.
    ///
    /// # Errors
    ///
    /// The errors of [`Snapshot::reader`].
    pub fn reader<S: Versioned>(&self, structure: &str) -> Result<BlockingReader<S>, Error> {
        let run = async |_: &Session| self.snapshot.reader(structure).await;
        let reader = self.connection.run(run)?;
        let connection = self.connection.clone();
        Ok(BlockingReader { connection, reader })
    }
}

/// The writer of a lock domain, whose calls wait.
pub struct BlockingDomain {
    connection: Rc<Connection>,
    domain: Domain,
}

impl BlockingDomain {
    /// Waits for [`Domain::structure`], which finds the structure `name` of the lock domain or makes it.
    ///
    /// # Errors
    ///
    /// The errors of [`Domain::structure`].
    pub fn structure<S: Shape>(&mut self, name: &str) -> Result<Member<S>, Error> {
        let domain = &mut self.domain;
        let run = async |_: &Session| domain.structure(name).await;
        self.connection.run(run)
    }

    /// Begins an attempt for a transaction, as [`Domain::attempt`].
    pub fn attempt(&self, token: NonZeroU64) -> Attempt {
        self.domain.attempt(token)
    }

    /// Waits for [`Domain::commit`]: when the call returns, the transaction is durable and visible to all readers.
    ///
    /// # Errors
    ///
    /// The errors of [`Domain::commit`].
    pub fn commit(&mut self, transaction: &Transaction) -> Result<Outcome, Error> {
        let domain = &mut self.domain;
        let run = async |_: &Session| domain.commit(transaction).await;
        self.connection.run(run)
    }

    /// Waits for [`Domain::commit_once`], which commits the transaction exactly once, however often `attempt` is
    /// repeated.
    ///
    /// # Errors
    ///
    /// The errors of [`Domain::commit_once`].
    pub fn commit_once(
        &mut self,
        attempt: Attempt,
        transaction: &Transaction,
    ) -> Result<Outcome, Error> {
        let domain = &mut self.domain;
        let run = async |_: &Session| domain.commit_once(attempt, transaction).await;
        self.connection.run(run)
    }

    /// Waits for [`Domain::look`], which reads provisional values for a transaction.
    ///
    /// # Errors
    ///
    /// The errors of [`Domain::look`].
    pub fn look(&mut self, look: &Look) -> Result<Found, Error> {
        let domain = &mut self.domain;
        self.connection.run(async |_| domain.look(look).await)
    }

    /// Waits for [`Domain::confirm`]: when the call returns, the values of earlier calls of [`BlockingDomain::look`]
    /// count.
    ///
    /// # Errors
    ///
    /// The errors of [`Domain::confirm`].
    pub fn confirm(&mut self) -> Result<(), Error> {
        let domain = &mut self.domain;
        self.connection.run(async |_| domain.confirm().await)
    }

    /// Waits for [`Domain::release`], which gives the tenure back.
    ///
    /// # Errors
    ///
    /// The errors of [`Domain::release`].
    pub fn release(self) -> Result<(), Error> {
        self.connection.run(async |_| self.domain.release().await)
    }
}

/// A writer whose calls wait.
pub struct BlockingWriter<S: Shape> {
    connection: Rc<Connection>,
    writer: Writer<S>,
}

macro_rules! waiting {
    ($($(#[doc = $what:literal])+ $name:ident($($argument:ident: $of:ty),*) -> $result:ty;)+) => {
        $(
            $(#[doc = $what])+
            ///
            /// # Errors
            ///
            #[doc = concat!("The errors of [`Writer::", stringify!($name), "`].")]
            pub fn $name(&mut self, $($argument: $of),*) -> Result<$result, Error> {
                let writer = &mut self.writer;
                self.connection.run(async |_| writer.$name($($argument),*).await)
            }
        )+
    };
}

impl<S: Shape> BlockingWriter<S> {
    waiting! {
        /// Waits for [`Writer::renew`], which tells the back-end that this writer lives.
        renew() -> ();
        /// Waits for [`Writer::publish`], which makes everything staged durable, and visible to all readers.
        publish() -> ();
        /// Waits for [`Writer::flush`], which makes everything staged durable.
        flush() -> ();
        /// Waits for [`Writer::clear`], which makes the structure empty.
        clear() -> ();
        /// Waits for [`Writer::rename`], which gives the structure another name in its lock domain.
        rename(structure: &str) -> ();
    }

    /// Begins to publish everything staged, as [`Writer::start_publication`], and goes on. A later
    /// [`BlockingWriter::publish`] waits for it.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::start_publication`].
    pub fn start_publication(&mut self) -> Result<(), Error> {
        let writer = &mut self.writer;
        let begun = async |_: &Session| writer.start_publication().await;
        self.connection.run(begun).map(drop)
    }

    /// Waits for [`Writer::destroy`], which ends the structure and gives the tenure back.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::destroy`].
    pub fn destroy(self) -> Result<(), Error> {
        self.connection.run(async |_| self.writer.destroy().await)
    }

    /// Waits for [`Writer::release`], which publishes staged updates and gives the tenure back.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::release`].
    pub fn release(self) -> Result<(), Error> {
        self.connection.run(async |_| self.writer.release().await)
    }
}

impl<S: Keyed> BlockingWriter<S> {
    waiting! {
        /// Waits for [`Writer::insert`], which gives `key` a value. Returns whether `key` had one before.
        insert(key: &S::Key, value: &S::Value) -> bool;
        /// Waits for [`Writer::insert_if_absent`], which gives `key` a value if it has none. Returns whether `key` had
        /// one.
        insert_if_absent(key: &S::Key, value: &S::Value) -> bool;
        /// Waits for [`Writer::update`], which gives `key` another value if it has one. Returns whether `key` had one.
        update(key: &S::Key, value: &S::Value) -> bool;
        /// Waits for [`Writer::compare_and_update`], which gives `key` the value `new` if it has the value `expected`.
        /// Returns whether `key` had `expected`.
        compare_and_update(key: &S::Key, expected: &S::Value, new: &S::Value) -> bool;
        /// Waits for [`Writer::remove`], which removes `key`. Returns whether `key` had a value.
        remove(key: &S::Key) -> bool;
        /// Waits for [`Writer::get`], which returns the value of `key` with everything staged.
        get(key: &S::Key) -> Option<S::Value>;
    }

    /// Waits for [`Writer::bulk_load`], which gives keys values, with one publication for all.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::bulk_load`].
    pub fn bulk_load<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a S::Key, &'a S::Value)>,
    ) -> Result<(), Error>
    where
        S::Key: 'a,
        S::Value: 'a,
    {
        let writer = &mut self.writer;
        self.connection
            .run(async |_| writer.bulk_load(entries).await)
    }

    /// Stages that `key` gets a value. [`BlockingWriter::flush`] makes it durable.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::stage`].
    pub fn stage(&mut self, key: &S::Key, value: &S::Value) -> Result<(), Error> {
        let writer = &mut self.writer;
        let staged = self
            .connection
            .run(async |_| writer.stage(key, value).await);
        staged.map(drop)
    }
}

impl<S: Keyed> BlockingWriter<S> {
    /// Waits for [`Writer::insert_all`], which gives keys values, with one publication for all.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert_all`].
    pub fn insert_all<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a S::Key, &'a S::Value)>,
    ) -> Result<(), Error>
    where
        S::Key: 'a,
        S::Value: 'a,
    {
        let writer = &mut self.writer;
        self.connection
            .run(async |_| writer.insert_all(entries).await)
    }

    /// Stages the removal of `key`. [`BlockingWriter::flush`] makes it durable.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::stage_remove`].
    pub fn stage_remove(&mut self, key: &S::Key) -> Result<(), Error> {
        let writer = &mut self.writer;
        let staged = async |_: &Session| writer.stage_remove(key).await;
        self.connection.run(staged).map(drop)
    }
}

impl<S: Sequence> BlockingWriter<S> {
    /// Stages that a value is put in. [`BlockingWriter::flush`] makes it durable.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::stage_push`].
    pub fn stage_push(&mut self, value: &S::Value) -> Result<(), Error> {
        let writer = &mut self.writer;
        let staged = async |_: &Session| writer.stage_push(value).await;
        self.connection.run(staged).map(drop)
    }

    waiting! {
        /// Waits for [`Writer::push`], which puts a value in.
        push(value: &S::Value) -> ();
        /// Waits for [`Writer::pop`], which takes the value that comes next; `None`: there is none.
        pop() -> Option<S::Value>;
    }
}

impl<S: Shape> BlockingWriter<S> {
    /// Begins an attempt, as [`Writer::attempt`].
    pub fn attempt(&self, token: NonZeroU64) -> Attempt {
        self.writer.attempt(token)
    }

    /// Updates with an attempt, which may have been tried before, as [`Writer::once`].
    pub fn once(&mut self, attempt: Attempt) -> BlockingOnce<'_, S> {
        BlockingOnce {
            connection: &self.connection,
            once: self.writer.once(attempt),
        }
    }
}

/// The updates of a writer with an [`Attempt`], whose calls wait. One attempt is for one update.
///
/// ```
/// use std::num::NonZeroU64;
///
/// use stonecast::Durability;
/// use stonecast::structures::{BTree, Server, connect_blocking};
///
/// # let folder = tempfile::tempdir()?;
/// let server = Server::builder(folder.path().join("pool"))
///     .durability(Durability::Process)
///     .capacity(32 << 20)
///     .serve()?;
/// let session = connect_blocking(&server.address().to_string())?;
/// let mut stock = session.writer::<BTree<u64, u64>>("stock")?;
/// stock.insert_all([(&1, &10), (&2, &20)])?;
/// let attempt = stock.attempt(NonZeroU64::MIN);
/// for _ in 0..3 {
///     assert!(stock.once(attempt).compare_and_update(&1, &10, &11)?); // the first answer each time
/// }
/// stock.stage_remove(&2)?;
/// stock.publish()?;
/// let mut seen = session.reader::<BTree<u64, u64>>("stock")?;
/// assert_eq!((seen.first()?, seen.last()?), (Some((1, 11)), Some((1, 11))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockingOnce<'a, S: Shape> {
    connection: &'a Connection,
    once: Once<'a, S>,
}

macro_rules! once {
    ($($(#[doc = $what:literal])+ $name:ident($($argument:ident: $of:ty),*) -> $result:ty;)+) => {
        $(
            $(#[doc = $what])+
            ///
            /// # Errors
            ///
            #[doc = concat!("The errors of [`Once::", stringify!($name), "`].")]
            pub fn $name(self, $($argument: $of),*) -> Result<$result, Error> {
                let once = self.once;
                self.connection.run(async |_| once.$name($($argument),*).await)
            }
        )+
    };
}

impl<S: Keyed> BlockingOnce<'_, S> {
    once! {
        /// Waits for [`Once::insert`]. Returns whether `key` had a value before.
        insert(key: &S::Key, value: &S::Value) -> bool;
        /// Waits for [`Once::insert_if_absent`]. Returns whether `key` had a value.
        insert_if_absent(key: &S::Key, value: &S::Value) -> bool;
        /// Waits for [`Once::update`]. Returns whether `key` had a value.
        update(key: &S::Key, value: &S::Value) -> bool;
        /// Waits for [`Once::compare_and_update`]. Returns whether `key` had `expected`.
        compare_and_update(key: &S::Key, expected: &S::Value, new: &S::Value) -> bool;
        /// Waits for [`Once::remove`]. Returns whether `key` had a value.
        remove(key: &S::Key) -> bool;
    }
}

impl<S: Sequence> BlockingOnce<'_, S> {
    once! {
        /// Waits for [`Once::push`], which puts a value in once.
        push(value: &S::Value) -> ();
        /// Waits for [`Once::pop`], which takes the value that comes next once; `None`: there was none.
        pop() -> Option<S::Value>;
    }
}

impl<V: Value> BlockingWriter<Queue<V>> {
    waiting! {
        /// Waits for [`Writer::remove_below`], which removes the values with numbers below `floor`. Returns how many.
        remove_below(floor: u64) -> u64;
    }
}

/// The consumer of a queue, whose calls wait.
pub struct BlockingConsumer<V: Value> {
    connection: Rc<Connection>,
    consumer: Consumer<V>,
}

impl<V: Value> BlockingConsumer<V> {
    /// Waits for [`Consumer::take`], which takes the next job; `None`: there is none.
    ///
    /// # Errors
    ///
    /// The errors of [`Consumer::take`].
    pub fn take(&mut self) -> Result<Option<TakenJob<V>>, Error> {
        let consumer = &mut self.consumer;
        self.connection.run(async |_| consumer.take().await)
    }

    /// Waits for [`Consumer::done`], which ends a job. Returns whether the job was taken and not done.
    ///
    /// # Errors
    ///
    /// The errors of [`Consumer::done`].
    pub fn done(&mut self, number: u64) -> Result<bool, Error> {
        let consumer = &mut self.consumer;
        self.connection.run(async |_| consumer.done(number).await)
    }

    /// Waits for [`Consumer::unfinished`], which returns the jobs that are taken and not done.
    ///
    /// # Errors
    ///
    /// The errors of [`Consumer::unfinished`].
    pub fn unfinished(&mut self) -> Result<Vec<TakenJob<V>>, Error> {
        let consumer = &mut self.consumer;
        self.connection.run(async |_| consumer.unfinished().await)
    }

    /// Waits for [`Consumer::renew`], which tells the back-end that this consumer lives.
    ///
    /// # Errors
    ///
    /// The errors of [`Consumer::renew`].
    pub fn renew(&self) -> Result<(), Error> {
        self.connection.run(async |_| self.consumer.renew().await)
    }

    /// Waits for [`Consumer::release`], which gives the lease back. Jobs that are taken and not done stay so.
    ///
    /// # Errors
    ///
    /// The errors of [`Consumer::release`].
    pub fn release(self) -> Result<(), Error> {
        self.connection.run(async |_| self.consumer.release().await)
    }
}

impl<V: Value> BlockingReader<Cursor<V>> {
    /// Waits for [`Reader::floor`]: all jobs with lower numbers are done, and the job with this number is not.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::floor`].
    pub fn floor(&mut self) -> Result<u64, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.floor().await)
    }
}

/// A reader whose calls wait.
pub struct BlockingReader<S: Shape> {
    connection: Rc<Connection>,
    reader: Reader<S>,
}

impl<S: Shape> BlockingReader<S> {
    /// Waits for [`Reader::len`], which returns the number of entries or values.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::len`].
    pub fn len(&mut self) -> Result<u64, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.len().await)
    }

    /// Waits for [`Reader::is_empty`], which returns whether the structure has no entry or value.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::is_empty`].
    pub fn is_empty(&mut self) -> Result<bool, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.is_empty().await)
    }
}

impl<S: Keyed> BlockingReader<S> {
    /// Waits for [`Reader::get`], which returns the value of `key`.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub fn get(&mut self, key: &S::Key) -> Result<Option<S::Value>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.get(key).await)
    }

    /// Waits for [`Reader::get_many`], which returns the values of several keys, in the order of the keys.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get_many`].
    pub fn get_many<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a S::Key>,
    ) -> Result<Vec<Option<S::Value>>, Error>
    where
        S::Key: 'a,
    {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.get_many(keys).await)
    }

    /// Accepts answers that were true at most `limit` before the call, as [`Reader::max_staleness`].
    #[must_use]
    pub fn max_staleness(self, limit: Duration) -> Self {
        Self {
            reader: self.reader.max_staleness(limit),
            ..self
        }
    }

    /// Waits for [`Reader::entries`], which returns all entries.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::entries`].
    pub fn entries(&mut self) -> Result<Vec<Entry<S>>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.entries().await)
    }
}

impl<K: Key, V: Value> BlockingReader<HashTable<K, V>> {
    /// As [`Reader::scan`].
    pub fn scan(&mut self) -> BlockingScan<'_, K, V> {
        BlockingScan {
            connection: &self.connection,
            scan: self.reader.scan(),
        }
    }
}

/// The entries of a hash table. After an error, the iteration goes on with the same segment.
pub struct BlockingScan<'a, K: Key, V: Value> {
    connection: &'a Connection,
    scan: Scan<'a, K, V>,
}

impl<K: Key, V: Value> Iterator for BlockingScan<'_, K, V> {
    type Item = Result<Entry<HashTable<K, V>>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let scan = &mut self.scan;
        let of_segment = scan.next_of_segment();
        of_segment.or_else(|| {
            let next = self.connection.run(async |_| scan.next().await);
            next.transpose()
        })
    }
}

impl<S: Sequence> BlockingReader<S> {
    /// Waits for [`Reader::peek`], which returns the value that comes next; `None`: there is none.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::peek`].
    pub fn peek(&mut self) -> Result<Option<S::Value>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.peek().await)
    }

    /// Waits for [`Reader::values`], which returns all values, in the order in which they come out.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::values`].
    pub fn values(&mut self) -> Result<Vec<S::Value>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.values().await)
    }
}

impl<S: Ordered> BlockingReader<S> {
    /// The entries with keys in `keys`, by key, as [`Reader::range`]. Each step of the iterator waits.
    pub fn range(&mut self, keys: impl RangeBounds<S::Key>) -> BlockingRange<'_, S> {
        BlockingRange {
            connection: &self.connection,
            range: self.reader.range(keys),
        }
    }

    /// The entries that a range of this or another reader has not given, as [`Reader::resume`].
    pub fn resume(&mut self, rest: &Rest) -> BlockingRange<'_, S> {
        BlockingRange {
            connection: &self.connection,
            range: self.reader.resume(rest),
        }
    }
}

impl<S: Ordered> BlockingReader<S> {
    /// Waits for [`Reader::first`], which returns the entry with the lowest key.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::first`].
    pub fn first(&mut self) -> Result<Option<Entry<S>>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.first().await)
    }

    /// Waits for [`Reader::last`], which returns the entry with the highest key.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::last`].
    pub fn last(&mut self) -> Result<Option<Entry<S>>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.last().await)
    }
}

/// The entries of a range of keys. After an error, the iteration goes on with the same leaf.
pub struct BlockingRange<'a, S: Ordered> {
    connection: &'a Connection,
    range: Range<'a, S>,
}

impl<S: Ordered> BlockingRange<'_, S> {
    /// The same range from its end to its start, as [`Range::reversed`].
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            connection: self.connection,
            range: self.range.reversed(),
        }
    }

    /// The part of the range that was not given, for [`BlockingReader::resume`].
    pub fn rest(&self) -> Rest {
        self.range.rest()
    }
}

impl<S: Ordered> Iterator for BlockingRange<'_, S> {
    type Item = Result<Entry<S>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let range = &mut self.range;
        let of_leaf = range.next_of_leaf();
        of_leaf.or_else(|| {
            let next = self.connection.run(async |_| range.next().await);
            next.transpose()
        })
    }
}
