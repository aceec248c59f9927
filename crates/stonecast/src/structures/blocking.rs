//! Structures for programs without `async`: each call waits.

use std::num::NonZeroU64;
use std::ops::RangeBounds;
use std::rc::Rc;
use std::time::Duration;

use super::attempt::Attempt;
use super::domain::{Domain, Member, Outcome, Transaction};
use super::error::Error;
use super::reader::{Range, Reader, Rest};
use super::session::{Connection, DomainState, Listed, Metrics, Session, connect};
use super::snapshot::Snapshot;
use super::types::{Entry, Keyed, Ordered, Sequence, Shape, Versioned};
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
/// The same as [`connect`].
pub fn connect_blocking(url: &str) -> Result<BlockingSession, Error> {
    Ok(BlockingSession {
        connection: Rc::new(connect(url)?),
    })
}

/// A session whose calls wait. It belongs to the thread that made it.
#[derive(Clone)]
pub struct BlockingSession {
    connection: Rc<Connection>,
}

impl BlockingSession {
    /// As [`Session::writer`](super::Session::writer).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn writer<S: Shape>(&self, name: &str) -> Result<BlockingWriter<S>, Error> {
        let writer = self
            .connection
            .run(async |session| session.writer(name).await)?;
        let connection = self.connection.clone();
        Ok(BlockingWriter { connection, writer })
    }

    /// As [`Session::reader`](super::Session::reader).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn reader<S: Shape>(&self, name: &str) -> Result<BlockingReader<S>, Error> {
        let reader = self
            .connection
            .run(async |session| session.reader(name).await)?;
        let connection = self.connection.clone();
        Ok(BlockingReader { connection, reader })
    }

    /// As [`Session::reader_caching`](super::Session::reader_caching).
    ///
    /// # Errors
    ///
    /// The same.
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

    /// As [`Session::domain`](super::Session::domain).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn domain(&self, name: &str) -> Result<BlockingDomain, Error> {
        let run = async |session: &Session| session.domain(name).await;
        let domain = self.connection.run(run)?;
        let connection = self.connection.clone();
        Ok(BlockingDomain { connection, domain })
    }

    /// As [`Session::snapshot`](super::Session::snapshot).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn snapshot(&self, domain: &str) -> Result<BlockingSnapshot, Error> {
        let run = async |session: &Session| session.snapshot(domain).await;
        let snapshot = self.connection.run(run)?;
        let connection = self.connection.clone();
        Ok(BlockingSnapshot {
            connection,
            snapshot,
        })
    }

    /// As [`Session::list`](super::Session::list).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        self.connection.run(async |session| session.list().await)
    }

    /// As [`Session::stat`](super::Session::stat).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn stat(&self) -> Result<Vec<DomainState>, Error> {
        self.connection.run(async |session| session.stat().await)
    }

    /// As [`Session::metrics`](super::Session::metrics).
    ///
    /// # Errors
    ///
    /// The same.
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
    /// As [`Snapshot::reader`].
    ///
    /// # Errors
    ///
    /// The same.
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
    /// As [`Domain::structure`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn structure<S: Shape>(&mut self, name: &str) -> Result<Member<S>, Error> {
        let domain = &mut self.domain;
        let run = async |_: &Session| domain.structure(name).await;
        self.connection.run(run)
    }

    /// As [`Domain::attempt`].
    pub fn attempt(&self, token: NonZeroU64) -> Attempt {
        self.domain.attempt(token)
    }

    /// As [`Domain::commit`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn commit(&mut self, transaction: &Transaction) -> Result<Outcome, Error> {
        let domain = &mut self.domain;
        let run = async |_: &Session| domain.commit(transaction).await;
        self.connection.run(run)
    }

    /// As [`Domain::commit_once`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn commit_once(
        &mut self,
        attempt: Attempt,
        transaction: &Transaction,
    ) -> Result<Outcome, Error> {
        let domain = &mut self.domain;
        let run = async |_: &Session| domain.commit_once(attempt, transaction).await;
        self.connection.run(run)
    }

    /// As [`Domain::release`].
    ///
    /// # Errors
    ///
    /// The same.
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
            /// The same.
            pub fn $name(&mut self, $($argument: $of),*) -> Result<$result, Error> {
                let writer = &mut self.writer;
                self.connection.run(async |_| writer.$name($($argument),*).await)
            }
        )+
    };
}

impl<S: Shape> BlockingWriter<S> {
    waiting! {
        /// As [`Writer::renew`].
        renew() -> ();
        /// As [`Writer::publish`].
        publish() -> ();
        /// As [`Writer::flush`].
        flush() -> ();
        /// As [`Writer::clear`].
        clear() -> ();
        /// As [`Writer::rename`].
        rename(structure: &str) -> ();
    }

    /// As [`Writer::destroy`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn destroy(self) -> Result<(), Error> {
        self.connection.run(async |_| self.writer.destroy().await)
    }

    /// As [`Writer::release`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn release(self) -> Result<(), Error> {
        self.connection.run(async |_| self.writer.release().await)
    }
}

impl<S: Keyed> BlockingWriter<S> {
    waiting! {
        /// As [`Writer::insert`].
        insert(key: &S::Key, value: &S::Value) -> bool;
        /// As [`Writer::insert_if_absent`].
        insert_if_absent(key: &S::Key, value: &S::Value) -> bool;
        /// As [`Writer::update`].
        update(key: &S::Key, value: &S::Value) -> bool;
        /// As [`Writer::compare_and_update`].
        compare_and_update(key: &S::Key, expected: &S::Value, new: &S::Value) -> bool;
        /// As [`Writer::remove`].
        remove(key: &S::Key) -> bool;
        /// As [`Writer::get`].
        get(key: &S::Key) -> Option<S::Value>;
    }

    /// Stages that `key` gets a value. [`BlockingWriter::flush`] makes it durable.
    ///
    /// # Errors
    ///
    /// As [`Writer::stage`].
    pub fn stage(&mut self, key: &S::Key, value: &S::Value) -> Result<(), Error> {
        let writer = &mut self.writer;
        let staged = self
            .connection
            .run(async |_| writer.stage(key, value).await);
        staged.map(drop)
    }
}

impl<S: Sequence> BlockingWriter<S> {
    waiting! {
        /// As [`Writer::push`].
        push(value: &S::Value) -> ();
        /// As [`Writer::pop`].
        pop() -> Option<S::Value>;
    }
}

/// A reader whose calls wait.
pub struct BlockingReader<S: Shape> {
    connection: Rc<Connection>,
    reader: Reader<S>,
}

impl<S: Keyed> BlockingReader<S> {
    /// As [`Reader::get`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn get(&mut self, key: &S::Key) -> Result<Option<S::Value>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.get(key).await)
    }

    /// As [`Reader::get_many`].
    ///
    /// # Errors
    ///
    /// The same.
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

    /// As [`Reader::max_staleness`].
    #[must_use]
    pub fn max_staleness(self, limit: Duration) -> Self {
        Self {
            reader: self.reader.max_staleness(limit),
            ..self
        }
    }

    /// As [`Reader::entries`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn entries(&mut self) -> Result<Vec<Entry<S>>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.entries().await)
    }
}

impl<S: Sequence> BlockingReader<S> {
    /// As [`Reader::peek`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn peek(&mut self) -> Result<Option<S::Value>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.peek().await)
    }

    /// As [`Reader::values`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn values(&mut self) -> Result<Vec<S::Value>, Error> {
        let reader = &mut self.reader;
        self.connection.run(async |_| reader.values().await)
    }
}

impl<S: Ordered> BlockingReader<S> {
    /// As [`Reader::range`].
    pub fn range(&mut self, keys: impl RangeBounds<S::Key>) -> BlockingRange<'_, S> {
        BlockingRange {
            connection: &self.connection,
            range: self.reader.range(keys),
        }
    }

    /// As [`Reader::resume`].
    pub fn resume(&mut self, rest: &Rest) -> BlockingRange<'_, S> {
        BlockingRange {
            connection: &self.connection,
            range: self.reader.resume(rest),
        }
    }
}

/// The entries of a range of keys. After an error, the iteration goes on with the same leaf.
pub struct BlockingRange<'a, S: Ordered> {
    connection: &'a Connection,
    range: Range<'a, S>,
}

impl<S: Ordered> BlockingRange<'_, S> {
    /// As [`Range::reversed`].
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            connection: self.connection,
            range: self.range.reversed(),
        }
    }

    /// As [`Range::rest`].
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
