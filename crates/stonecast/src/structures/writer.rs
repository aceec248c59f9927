//! Writers of structures, and the tickets of staged updates.

use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_structures::shapes::Answer;
use stonecast_structures::{Key as _, Verb};

use super::attempt::Attempt;
use super::domain::Domain;
use super::error::Error;
use super::session::Name;
use super::types::{Keyed, Sequence, Shape};
use super::update::{Update, decoded, is_so, taken};
use crate::error::Effect;

/// Keys of a batch that are looked up together.
const LOOK_AHEAD: usize = 512;

/// The writer of a structure of type `S`. It has the tenure of the structure's lock domain until it is dropped, or
/// silent for longer than its lease.
///
/// | call | when it returns |
/// | --- | --- |
/// | `insert` and every other update | durable, and visible to all readers |
/// | `stage` and the like | executed; durable when its [`Ticket`] ends, visible after [`Writer::publish`] |
///
/// A lock domain whose structures have no room gets more memory of the pool.
/// ```
/// use stonecast::structures::{self, HashTable, Queue, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let server = Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
/// let connection = structures::connect(&server.address().to_string())?;
/// connection.run(async |session| {
///     let mut stock = session.writer::<HashTable<u64, u64>>("stock").await?;
///     stock.insert_all([(&1, &10), (&2, &20)]).await?; // with one publication
///     assert!(stock.insert_if_absent(&1, &11).await?); // it has a value, which stays
///     assert!(stock.update(&1, &12).await?);
///     assert!(stock.remove(&2).await?);
///     assert_eq!(stock.get(&1).await?, Some(12));
///
///     stock.look_ahead([&1, &3]).await?; // updates of these keys need no further READ
///     let (removed, added) = (stock.stage_remove(&1).await?, stock.stage(&3, &30).await?);
///     assert_eq!(stock.staged(), 2);
///     stock.flush().await?; // durable, so both tickets end
///     removed.await?;
///     added.await?;
///     stock.publish().await?; // visible
///     assert_eq!(stock.staged(), 0);
///
///     stock.renew().await?; // a writer without updates keeps its tenure
///     println!("tenure {} ends", stock.tenure());
///     stock.release().await?;
///
///     let mut jobs = session.writer::<Queue<u64>>("jobs").await?;
///     let job = jobs.stage_push(&7).await?;
///     jobs.publish().await?;
///     job.await?;
///     Ok::<(), structures::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer<S: Shape> {
    pub(super) name: Rc<str>,
    pub(super) domain: Domain,
    number: u32,
    shape: PhantomData<S>,
}

/// A staged update: the future ends when the update is durable. A ticket that is dropped changes nothing.
#[must_use = "the update is durable when the ticket has ended well"]
pub struct Ticket {
    name: Rc<str>,
    ticket: stonecast_structures::Ticket,
}

impl Future for Ticket {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.ticket).poll(context);
        polled.map_err(|error| Error::of(&self.name, error, effect_of(&self.ticket)))
    }
}

/// The effect of a failed wait for an update that is staged. A durable one stays, whatever becomes of its writer: the
/// hand-over publishes it.
pub(super) fn effect_of(ticket: &stonecast_structures::Ticket) -> Effect {
    match ticket.is_durable() {
        true => Effect::Done,
        false => Effect::Unknown { token: None },
    }
}

impl<S: Shape> Writer<S> {
    pub(super) fn new(name: &str, domain: Domain, number: u32) -> Self {
        Self {
            name: name.into(),
            domain,
            number,
            shape: PhantomData,
        }
    }

    async fn stage_update(&mut self, update: &Update) -> Result<(Answer, Ticket), Error> {
        let staged = self.domain.stage(&self.name, self.number, update, None);
        let (answer, ticket) = staged.await?;
        let name = self.name.clone();
        Ok((answer, Ticket { name, ticket }))
    }

    /// Does an update: durable, and visible to all readers, when it returns.
    pub(super) async fn update_now(
        &mut self,
        update: &Update,
        attempt: Option<Attempt>,
    ) -> Result<Answer, Error> {
        let staged = self.domain.stage(&self.name, self.number, update, attempt);
        let (answer, ticket) = staged.await?;
        self.domain.publish_with(&self.name, &ticket).await?;
        Ok(answer)
    }

    /// Makes everything staged durable, and visible to all readers.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`]; [`Error::effect`] tells what became of the staged updates.
    pub async fn publish(&mut self) -> Result<(), Error> {
        self.domain.publish(&self.name).await
    }

    /// Makes everything staged durable.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::publish`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.domain.flush(&self.name).await
    }

    /// Tells the back-end that this writer lives.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`].
    pub async fn renew(&self) -> Result<(), Error> {
        self.domain.renew().await
    }

    /// Updates that are staged and not published.
    pub fn staged(&self) -> u64 {
        self.domain.staged()
    }

    /// The number of the structure in its lock domain.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The number of the writer's tenure.
    pub fn tenure(&self) -> u32 {
        self.domain.tenure()
    }

    /// Publishes staged updates, and gives the tenure back. A writer that is dropped keeps its tenure until its
    /// connection or its lease ends.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::publish`]. If the end of the tenure alone fails, everything is done.
    pub async fn release(mut self) -> Result<(), Error> {
        self.publish().await?;
        self.domain.end(Effect::Done).await
    }
}

impl<S: Shape> Writer<S> {
    async fn change_domain(&mut self, verb: Verb, value: &[u8]) -> Result<Answer, Error> {
        let change = Update {
            verb,
            key: part_of(&self.name).as_bytes().to_vec(),
            value: value.to_vec(),
        };
        let (answer, ticket) = self.domain.stage(&self.name, 0, &change, None).await?;
        self.domain.publish_with(&self.name, &ticket).await?;
        Ok(answer)
    }

    /// Makes the structure empty. Readers read the empty one. Later publications free its blocks, some at a time.
    ///
    /// ```
    /// use stonecast::Durability;
    /// use stonecast::structures::{self, HashTable, Server};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let server = Server::builder(folder.path().join("pool"))
    ///     .durability(Durability::Process)
    ///     .capacity(32 << 20)
    ///     .serve()?;
    /// let session = structures::connect_blocking(&server.address().to_string())?;
    /// let mut stock = session.writer::<HashTable<String, u64>>("shop/stock")?;
    /// let nails = "nails".to_owned();
    /// stock.insert(&nails, &7)?;
    /// assert!(stock.compare_and_update(&nails, &7, &6)?);
    /// assert!(!stock.compare_and_update(&nails, &7, &5)?);
    /// let mut seen = session.reader::<HashTable<String, u64>>("shop/stock")?;
    /// assert_eq!(seen.get(&nails)?, Some(6));
    /// stock.clear()?;
    /// assert_eq!(seen.get(&nails)?, None);
    /// stock.rename("store")?;
    /// assert_eq!(seen.get(&nails)?, None);
    /// session.reader::<HashTable<String, u64>>("shop/store")?;
    /// stock.destroy()?;
    /// assert!(matches!(seen.get(&nails), Err(structures::Error::NotFound { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same as [`Writer::publish`], and [`Error::NoRoom`]: nothing was done.
    pub async fn clear(&mut self) -> Result<(), Error> {
        if let Answer::Created(number) = self.change_domain(Verb::Clear, &[]).await? {
            self.number = number;
        }
        Ok(())
    }

    /// Gives the structure another name in its lock domain. Readers that have it open keep it.
    ///
    /// # Errors
    ///
    /// [`Error::Name`], [`Error::Taken`]: nothing was done. The same as [`Writer::publish`].
    pub async fn rename(&mut self, structure: &str) -> Result<(), Error> {
        let domain = self.name.split('/').next().unwrap_or_default();
        let name = format!("{domain}/{structure}");
        Name::parse(&name)?;
        if self.domain.roots().named(structure).is_some() {
            return Err(Error::Taken { name });
        }
        self.change_domain(Verb::Rename, structure.as_bytes())
            .await?;
        self.name = name.into();
        Ok(())
    }

    /// Ends the structure, and gives the tenure back. Later publications of the lock domain free its blocks, some at a
    /// time.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::clear`].
    pub async fn destroy(mut self) -> Result<(), Error> {
        self.change_domain(Verb::Drop, &[]).await?;
        self.release().await
    }
}

/// The part of a name that names the structure in its lock domain.
fn part_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, part)| part)
}

impl<S: Keyed> Writer<S> {
    /// Gives `key` a value. Returns whether it had one before.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::NoRoom`]: nothing was done. [`Error::TenureOver`], [`Error::Gone`]:
    /// [`Error::effect`] tells whether it was done.
    pub async fn insert(&mut self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        let update = Update::put::<S>(Verb::Insert, key, value);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Gives `key` a value if it has none. Returns whether it had one.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn insert_if_absent(
        &mut self,
        key: &S::Key,
        value: &S::Value,
    ) -> Result<bool, Error> {
        let update = Update::put::<S>(Verb::InsertIfAbsent, key, value);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Gives `key` another value if it has one. Returns whether it had one.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn update(&mut self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        let update = Update::put::<S>(Verb::Update, key, value);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Gives `key` the value `new` if it has the value `expected`. Returns whether it had.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn compare_and_update(
        &mut self,
        key: &S::Key,
        expected: &S::Value,
        new: &S::Value,
    ) -> Result<bool, Error> {
        let update = Update::compare::<S>(key, expected, new);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Removes `key`. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn remove(&mut self, key: &S::Key) -> Result<bool, Error> {
        let update = Update::remove::<S>(key);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Gives keys values, all of them with one publication. Their places are looked up together, many at a time: over a
    /// network, each level of the structure costs one round trip. Nothing of it is visible earlier, except where it
    /// outgrows the log.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`], for the first entry that fails. [`Error::effect`] tells the effect on this
    /// entry; the entries before it are staged, and may be published.
    pub async fn insert_all<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a S::Key, &'a S::Value)>,
    ) -> Result<(), Error>
    where
        S::Key: 'a,
        S::Value: 'a,
    {
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let some: Vec<_> = entries.by_ref().take(LOOK_AHEAD).collect();
            self.look_ahead(some.iter().map(|(key, _)| *key)).await?;
            for (key, value) in some {
                let _ticket = self.stage(key, value).await?;
            }
        }
        self.publish().await
    }

    /// Finds the places of `keys` together: over a network, each level of the structure costs one round trip, whatever
    /// the number of keys. Updates of these keys then have nothing to read, as long as everything fits into the 16 MiB
    /// that a writer remembers.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`].
    pub async fn look_ahead<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a S::Key>,
    ) -> Result<(), Error>
    where
        S::Key: 'a,
    {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| key.encoded()).collect();
        let domain = &mut self.domain;
        domain.look_ahead(&self.name, self.number, &keys).await
    }

    /// Stages that `key` gets a value.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn stage(&mut self, key: &S::Key, value: &S::Value) -> Result<Ticket, Error> {
        let update = Update::put::<S>(Verb::Insert, key, value);
        Ok(self.stage_update(&update).await?.1)
    }

    /// Stages the removal of `key`.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn stage_remove(&mut self, key: &S::Key) -> Result<Ticket, Error> {
        let update = Update::remove::<S>(key);
        Ok(self.stage_update(&update).await?.1)
    }

    /// The value of `key` with everything staged, which is made durable first.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`], [`Error::Damaged`], [`Error::Decode`].
    pub async fn get(&mut self, key: &S::Key) -> Result<Option<S::Value>, Error> {
        let key = key.encoded();
        let found = self.domain.get(&self.name, self.number, &key).await?;
        found
            .map(|bytes| decoded::<S>(&self.name, &bytes))
            .transpose()
    }
}

impl<S: Sequence> Writer<S> {
    /// Puts a value in.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::NoRoom`]: nothing was done. [`Error::TenureOver`], [`Error::Gone`]:
    /// [`Error::effect`] tells whether it was done.
    pub async fn push(&mut self, value: &S::Value) -> Result<(), Error> {
        self.update_now(&Update::push::<S>(value), None).await?;
        Ok(())
    }

    /// Takes the value that comes next; `None`: there is none. The value is gone for everybody when the call returns.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::push`], and [`Error::Decode`].
    pub async fn pop(&mut self) -> Result<Option<S::Value>, Error> {
        let answer = self.update_now(&Update::pop(), None).await?;
        taken::<S>(&self.name, &answer)
    }

    /// Stages that a value is put in.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::push`].
    pub async fn stage_push(&mut self, value: &S::Value) -> Result<Ticket, Error> {
        Ok(self.stage_update(&Update::push::<S>(value)).await?.1)
    }
}
