//! Updates that take effect once, however often a program tries.

use std::num::NonZeroU64;

use super::error::Error;
use super::types::{Keyed, Sequence, Shape};
use super::update::{Update, is_so, taken};
use super::writer::Writer;
use stonecast_structures::Verb;

/// The name of one update, by which it takes effect once. [`Writer::attempt`] makes it.
///
/// An update that fails with [`Effect::Unknown`](crate::Effect::Unknown) may be done or not. Repeated with the same
/// attempt, by any later writer of the lock domain, the update takes effect if it has not yet, and gives its first
/// answer.
///
/// The back-end keeps the results of the last updates with attempts, as many as an eighth of a slab takes, at most
/// 4,096 in a lock domain. If an attempt is older than all of them, the update is refused ([`Error::Forgotten`]).
/// ```
/// use std::num::NonZeroU64;
///
/// use stonecast::structures::{self, Attempt, HashTable, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let server = Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
/// let connection = structures::connect(&server.address().to_string())?;
/// connection.run(async |session| {
///     let token = |number| NonZeroU64::new(number).expect("a token is not 0");
///     let mut stock = session.writer::<HashTable<u64, u64>>("stock").await?;
///     let attempt = stock.attempt(token(1));
///     let note = (attempt.token(), attempt.since()); // kept where another process finds it
///     assert!(!stock.once(attempt).insert(&1, &10).await?);
///
///     let again = Attempt::resumed(note.0, note.1);
///     assert!(!stock.once(again).insert(&1, &10).await?); // the first answer again: it was done once
///
///     let (other, update, removal) = (token(2), token(3), token(4));
///     let attempt = stock.attempt(other);
///     assert!(stock.once(attempt).insert_if_absent(&1, &11).await?);
///     let attempt = stock.attempt(update);
///     assert!(stock.once(attempt).update(&1, &12).await?);
///     let attempt = stock.attempt(removal);
///     assert!(stock.once(attempt).remove(&1).await?);
///     Ok::<(), structures::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub(super) token: NonZeroU64,
    pub(super) since: u64,
}

impl Attempt {
    /// An attempt that another process has begun, with its [`Attempt::token`] and [`Attempt::since`].
    pub fn resumed(token: NonZeroU64, since: u64) -> Self {
        Self { token, since }
    }

    /// The token.
    pub fn token(&self) -> NonZeroU64 {
        self.token
    }

    /// The number of the operation of the lock domain behind which the attempt began.
    pub fn since(&self) -> u64 {
        self.since
    }
}

/// The updates of a writer with an [`Attempt`]. Each call returns when its update is durable and visible. One attempt
/// is for one update.
pub struct Once<'a, S: Shape> {
    writer: &'a mut Writer<S>,
    attempt: Attempt,
}

impl<S: Shape> Writer<S> {
    /// Begins an attempt. The program chooses the token: it names one update of the lock domain for as long as results
    /// are kept.
    pub fn attempt(&self, token: NonZeroU64) -> Attempt {
        Attempt {
            token,
            since: self.domain.operations(),
        }
    }

    /// Updates with an attempt, which may have been tried before.
    ///
    /// ```
    /// use std::num::NonZeroU64;
    ///
    /// use stonecast::Durability;
    /// use stonecast::structures::{self, Queue, Server};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let server = Server::builder(folder.path().join("pool"))
    ///     .durability(Durability::Process)
    ///     .capacity(32 << 20)
    ///     .serve()?;
    /// let connection = structures::connect(&server.address().to_string())?;
    /// connection.run(async |session| {
    ///     let mut jobs = session.writer::<Queue<String>>("jobs").await?;
    ///     let attempt = jobs.attempt(NonZeroU64::MIN);
    ///     let job = "paint the door".to_owned();
    ///     jobs.once(attempt).push(&job).await?;
    ///     jobs.release().await?;
    ///
    ///     let limit = std::time::Duration::from_secs(5);
    ///     let mut jobs = session.writer_within::<Queue<String>>("jobs", limit).await?;
    ///     jobs.once(attempt).push(&job).await?; // it was done before
    ///     assert_eq!(jobs.pop().await?, Some(job));
    ///     assert_eq!(jobs.pop().await?, None);
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn once(&mut self, attempt: Attempt) -> Once<'_, S> {
        Once {
            writer: self,
            attempt,
        }
    }
}

impl<S: Keyed> Once<'_, S> {
    /// Gives `key` a value once, as [`Writer::insert`]. Returns whether `key` had one before.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert`]. [`Error::Forgotten`], [`Error::Token`]: nothing was done.
    pub async fn insert(self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        self.put(Verb::Insert, key, value).await
    }

    /// Gives `key` a value once, if it has none, as [`Writer::insert_if_absent`]. Returns whether `key` had one.
    ///
    /// # Errors
    ///
    /// The errors of [`Once::insert`].
    pub async fn insert_if_absent(self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        self.put(Verb::InsertIfAbsent, key, value).await
    }

    /// Gives `key` another value once, if it has one, as [`Writer::update`]. Returns whether `key` had one.
    ///
    /// # Errors
    ///
    /// The errors of [`Once::insert`].
    pub async fn update(self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        self.put(Verb::Update, key, value).await
    }

    async fn put(self, verb: Verb, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        let update = Update::put::<S>(verb, key, value);
        let answer = self.writer.update_now(&update, Some(self.attempt)).await?;
        Ok(is_so(&answer))
    }

    /// Gives `key` the value `new` once, if it has the value `expected`, as [`Writer::compare_and_update`]. Returns
    /// whether `key` had `expected`.
    ///
    /// # Errors
    ///
    /// The errors of [`Once::insert`].
    pub async fn compare_and_update(
        self,
        key: &S::Key,
        expected: &S::Value,
        new: &S::Value,
    ) -> Result<bool, Error> {
        let update = Update::compare::<S>(key, expected, new);
        let answer = self.writer.update_now(&update, Some(self.attempt)).await?;
        Ok(is_so(&answer))
    }

    /// Removes `key` once, as [`Writer::remove`]. Returns whether `key` had a value.
    ///
    /// # Errors
    ///
    /// The errors of [`Once::insert`].
    pub async fn remove(self, key: &S::Key) -> Result<bool, Error> {
        let update = Update::remove::<S>(key);
        let answer = self.writer.update_now(&update, Some(self.attempt)).await?;
        Ok(is_so(&answer))
    }
}

impl<S: Sequence> Once<'_, S> {
    /// Puts a value in once, as [`Writer::push`].
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::push`]. [`Error::Forgotten`], [`Error::Token`]: nothing was done.
    pub async fn push(self, value: &S::Value) -> Result<(), Error> {
        let update = Update::push::<S>(value);
        self.writer.update_now(&update, Some(self.attempt)).await?;
        Ok(())
    }

    /// Takes the value that comes next once, as [`Writer::pop`]; `None`: there was none.
    ///
    /// # Errors
    ///
    /// The errors of [`Once::push`], and [`Error::Decode`].
    pub async fn pop(self) -> Result<Option<S::Value>, Error> {
        let update = Update::pop();
        let answer = self.writer.update_now(&update, Some(self.attempt)).await?;
        taken::<S>(&self.writer.name, &answer)
    }
}
