//! Writers of structures, and the tickets of staged updates.

use std::iter::Peekable;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_structures::shapes::{Answer, Structure, StructureKind, Traversal};
use stonecast_structures::{Key as _, NoMirrorLog, Run, Verb};

use super::attempt::Attempt;
use super::domain::Domain;
use super::error::Error;
use super::member::MemberIdentity;
use super::publication::Publication;
use super::session::Name;
use super::types::{Keyed, Sequence, Shape, Value as _};
use super::update::{Update, decoded, is_so, taken};
use crate::error::Effect;

/// Keys of a batch that are looked up together.
const LOOK_AHEAD: usize = 512;
/// Bytes of entries that one operation loads.
const RUN_SIZE: usize = 64 << 10;

/// The writer of a structure of type `S`. The writer has the tenure of the structure's lock domain until the value is
/// dropped, or silent for longer than the lease.
///
/// | call | when it returns |
/// | --- | --- |
/// | `insert` and every other update | durable, and visible to all readers |
/// | `stage` and the like | executed; durable when its [`Ticket`] ends, visible after [`Writer::publish`] |
/// | [`Writer::start_publication`] | sent; everything staged is visible when the [`Publication`] ends |
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
///     if let Err(reason) = stock.mirror_log() {
///         println!("tickets end by the back-end alone: {reason}"); // such as: the pool has no mirror
///     }
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

/// The effect of a failed wait for an update that is staged. A durable update stays, even if its writer ends:
/// the hand-over publishes the update.
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

    /// Performs one update, durable and visible to all readers when the call returns.
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
    /// [`Error::TenureOver`], [`Error::Gone`]; [`Error::effect`] tells the outcome of the staged updates.
    pub async fn publish(&mut self) -> Result<(), Error> {
        self.domain.publish(&self.name).await
    }

    /// Begins to publish everything staged, and goes on while the back-end applies it. Tickets of later updates end
    /// without waiting for the publication, where updates become durable without the processor of the back-end;
    /// elsewhere the back-end works on the publication first.
    ///
    /// Four publications at most have begun and not ended: the call waits for the oldest one then. A publication goes
    /// on with the waits of this writer. A crash leaves everything that a ticket has acknowledged.
    ///
    /// ```
    /// use stonecast::structures::{self, HashTable, Server};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let server = Server::builder(folder.path().join("pool"))
    /// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
    /// let connection = structures::connect(&server.address().to_string())?;
    /// connection.run(async |session| {
    ///     let mut stock = session.writer::<HashTable<u64, u64>>("stock").await?;
    ///     let _ticket = stock.stage(&1, &10).await?;
    ///     let mut publication = stock.start_publication().await?;
    ///     stock.stage(&2, &20).await?.await?; // durable, whether or not the publication has ended
    ///     (&mut publication).await?;
    ///     assert!(publication.is_visible());
    ///
    ///     let mut seen = session.reader::<HashTable<u64, u64>>("stock").await?;
    ///     assert_eq!((seen.get(&1).await?, seen.get(&2).await?), (Some(10), None));
    ///     stock.publish().await?;
    ///     assert_eq!(seen.get(&2).await?, Some(20));
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::publish`].
    pub async fn start_publication(&mut self) -> Result<Publication, Error> {
        self.domain.start_publication(&self.name).await
    }

    /// Makes everything staged durable.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::publish`].
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

    /// The end of a walk that the structure's kind has, with everything staged, which is made durable first.
    pub(super) async fn read_with<T: Traversal>(
        &mut self,
        walk: impl Fn(&Structure) -> Option<T>,
    ) -> Result<T::End, Error> {
        self.domain.read(&self.name, self.number, walk).await
    }

    /// The identity of the structure.
    pub(super) fn identity(&self) -> MemberIdentity {
        self.domain.identity_of(self.number, &self.name)
    }

    /// Whether tickets end when both logs have the update: that of the back-end and that of its mirror, to which the
    /// writer appends at once. Otherwise, and from the end of the connection to the mirror on, tickets of a pool with a
    /// mirror end with an answer of the back-end, which takes a round trip more.
    ///
    /// # Errors
    ///
    /// [`NoMirrorLog`]: the reason.
    pub fn mirror_log(&self) -> Result<(), Rc<NoMirrorLog>> {
        self.domain.mirror_log()
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
    /// The errors of [`Writer::publish`]. If the end of the tenure alone fails, everything is done.
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

    /// Makes the structure empty, also for its readers. Later publications free the old blocks, a few at a time.
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
    /// The errors of [`Writer::publish`], and [`Error::NoRoom`]: nothing was done.
    pub async fn clear(&mut self) -> Result<(), Error> {
        if let Answer::Created(number) = self.change_domain(Verb::Clear, &[]).await? {
            self.number = number;
        }
        Ok(())
    }

    /// Gives the structure another name in its lock domain. Open readers keep reading the structure.
    ///
    /// # Errors
    ///
    /// [`Error::Name`], [`Error::Taken`]: nothing was done. Otherwise the errors of [`Writer::publish`].
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

    /// Ends the structure, and gives the tenure back. Later publications of the lock domain free its blocks, a few at a
    /// time.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::clear`].
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
    /// Gives `key` a value. Returns whether `key` had one before.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::TooLong`], [`Error::NoRoom`]: nothing was done. [`Error::TenureOver`],
    /// [`Error::Gone`]: [`Error::effect`] tells whether the update was done.
    pub async fn insert(&mut self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        let update = Update::put::<S>(Verb::Insert, key, value);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Gives `key` a value if it has none. Returns whether `key` had one.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert`].
    pub async fn insert_if_absent(
        &mut self,
        key: &S::Key,
        value: &S::Value,
    ) -> Result<bool, Error> {
        let update = Update::put::<S>(Verb::InsertIfAbsent, key, value);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Gives `key` another value if it has one. Returns whether `key` had one.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert`].
    pub async fn update(&mut self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        let update = Update::put::<S>(Verb::Update, key, value);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Gives `key` the value `new` if it has the value `expected`. Returns whether `key` had `expected`.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert`].
    pub async fn compare_and_update(
        &mut self,
        key: &S::Key,
        expected: &S::Value,
        new: &S::Value,
    ) -> Result<bool, Error> {
        let update = Update::compare::<S>(key, expected, new);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Removes `key`. Returns whether `key` had a value.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert`].
    pub async fn remove(&mut self, key: &S::Key) -> Result<bool, Error> {
        let update = Update::remove::<S>(key);
        Ok(is_so(&self.update_now(&update, None).await?))
    }

    /// Gives keys values, all of them with one publication. Their places are looked up together, many at a time: over a
    /// network, each level of the structure costs one round trip. No entry is visible earlier, unless the entries
    /// outgrow the log.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert`], for the first entry that fails. [`Error::effect`] tells the effect on this
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

    /// Does the same as [`Writer::insert_all`]. While keys ascend, and lie behind all keys of a B+tree or
    /// multi-version B+tree, their entries are loaded from the leaves up, without a walk for each key, and leave full
    /// leaves. From the first entry on that does not, and in structures of other kinds, entries are inserted. Entries
    /// of a hash table are inserted in the order of their places there, so each place is reached once: hand as many
    /// over at a time as memory allows.
    ///
    /// ```
    /// use stonecast::structures::{self, BTree, Server};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let server = Server::builder(folder.path().join("pool"))
    /// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
    /// let connection = structures::connect(&server.address().to_string())?;
    /// connection.run(async |session| {
    ///     let mut squares = session.writer::<BTree<u64, u64>>("squares").await?;
    ///     let entries: Vec<(u64, u64)> = (0..10_000).map(|number| (number, number * number)).collect();
    ///     squares.bulk_load(entries.iter().map(|(number, square)| (number, square))).await?;
    ///     let mut seen = session.reader::<BTree<u64, u64>>("squares").await?;
    ///     assert_eq!((seen.len().await?, seen.get(&99).await?), (10_000, Some(9801)));
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert_all`]. Of the entries that are loaded together with the one that fails, none is
    /// staged; of those of a hash table, any may be.
    pub async fn bulk_load<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a S::Key, &'a S::Value)>,
    ) -> Result<(), Error>
    where
        S::Key: 'a,
        S::Value: 'a,
    {
        if let Some(Structure::HashTable(table)) = self.domain.roots().structure(self.number) {
            let placed = entries.into_iter();
            let placed = placed.map(|entry| (table.place_of(&entry.0.encoded()), entry));
            let mut placed: Vec<_> = placed.collect();
            // The last value of a key stays the last one.
            placed.sort_by_key(|(place, _)| *place);
            return self
                .insert_all(placed.into_iter().map(|(_, entry)| entry))
                .await;
        }
        if !matches!(S::KIND, StructureKind::BTree | StructureKind::MvBTree) {
            return self.insert_all(entries).await;
        }
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let (some, run) = next_run::<S>(&mut entries);
            if some.is_empty() {
                if let Some((key, value)) = entries.next() {
                    let _ticket = self.stage(key, value).await?;
                }
                continue;
            }
            let (answer, _ticket) = self.stage_update(&Update::load(&run)).await?;
            if answer != Answer::Changed(true) {
                return self.insert_all(some.into_iter().chain(entries)).await;
            }
        }
        self.publish().await
    }

    /// Finds the places of `keys` together: over a network, each level of the structure costs one round trip, whatever
    /// the number of keys. Updates of these keys then need no READ, as long as everything fits into the 16 MiB that a
    /// writer remembers.
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
    /// The errors of [`Writer::insert`].
    pub async fn stage(&mut self, key: &S::Key, value: &S::Value) -> Result<Ticket, Error> {
        let update = Update::put::<S>(Verb::Insert, key, value);
        Ok(self.stage_update(&update).await?.1)
    }

    /// Stages the removal of `key`.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert`].
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

/// An entry of a program.
type Pair<'a, S> = (&'a <S as Keyed>::Key, &'a <S as Shape>::Value);

/// The next entries while their keys ascend, of about [`RUN_SIZE`] bytes. An entry of that size is left for an insert.
fn next_run<'a, S: Keyed>(
    entries: &mut Peekable<impl Iterator<Item = Pair<'a, S>>>,
) -> (Vec<Pair<'a, S>>, Run) {
    let (mut some, mut run) = (Vec::new(), Run::default());
    let mut last: Option<Vec<u8>> = None;
    while let Some((key, value)) = entries.peek() {
        let (encoded, bytes) = (key.encoded(), value.encode());
        let is_behind = last.as_ref().is_none_or(|last| *last < encoded);
        let size = run.value().len() + Run::size_of(&encoded, &bytes);
        if !is_behind || size > RUN_SIZE {
            break;
        }
        run.push(&encoded, &bytes);
        last = Some(encoded);
        some.extend(entries.next());
    }
    (some, run)
}

impl<S: Sequence> Writer<S> {
    /// Puts a value in.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::TooLong`], [`Error::NoRoom`]: nothing was done. [`Error::TenureOver`],
    /// [`Error::Gone`]: [`Error::effect`] tells whether the update was done.
    pub async fn push(&mut self, value: &S::Value) -> Result<(), Error> {
        self.update_now(&Update::push::<S>(value), None).await?;
        Ok(())
    }

    /// Takes the value that comes next; `None`: there is none. When the call returns, no reader sees the value any
    /// longer.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::push`], and [`Error::Decode`].
    pub async fn pop(&mut self) -> Result<Option<S::Value>, Error> {
        let answer = self.update_now(&Update::pop(), None).await?;
        taken::<S>(&self.name, &answer)
    }

    /// Stages that the value that comes next is removed.
    pub(super) async fn stage_pop(&mut self) -> Result<Ticket, Error> {
        Ok(self.stage_update(&Update::pop()).await?.1)
    }

    /// Stages that a value is put in.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::push`].
    pub async fn stage_push(&mut self, value: &S::Value) -> Result<Ticket, Error> {
        Ok(self.stage_update(&Update::push::<S>(value)).await?.1)
    }
}
