//! A lock domain with its writer: structures that change together.

use std::rc::Rc;

use stonecast_structures::shapes::{Answer, Roots, Structure, Traversal};
use stonecast_structures::{FrontEndError, Group, NoMirrorLog, Operation, UNIT_SIZE, Verb};

use super::attempt::Attempt;
use super::error::Error;
use super::look::{Found, Look};
use super::member::{Member, MemberIdentity};
use super::publication::Publication;
use super::session::{Name, check};
use super::types::{Keyed, Sequence, Shape};
use super::update::{Update, is_so, taken};
use super::writer::effect_of;
use crate::error::Effect;

/// Bytes of old versions that a lock domain keeps. A reader that needs an older version begins again.
const OLD_VERSIONS_SIZE: u64 = 4 << 20;
/// Blocks of old versions that one operation frees.
const RECLAIMED: u32 = 127;
/// Operations before a publication that free blocks, at most.
const RECLAIMS_MAX: u32 = 64;

/// The writer of a lock domain, with all structures there. The writer has the tenure until the value is dropped, or
/// silent for longer than the lease.
///
/// ```
/// use stonecast::Durability;
/// use stonecast::structures::{self, BTree, Queue, Server, Transaction};
///
/// # let folder = tempfile::tempdir()?;
/// let server = Server::builder(folder.path().join("pool"))
///     .durability(Durability::Process)
///     .capacity(32 << 20)
///     .serve()?;
/// let connection = structures::connect(&server.address().to_string())?;
/// connection.run(async |session| {
///     let mut shop = session.domain("shop").await?;
///     let orders = shop.structure::<BTree<u64, String>>("orders").await?;
///     let jobs = shop.structure::<Queue<u64>>("jobs").await?;
///     let mut both = Transaction::default();
///     let order = both.insert(&orders, &7, &"two pins".to_owned());
///     both.push(&jobs, &7);
///     let outcome = shop.commit(&both).await?; // all of it, or nothing
///     assert!(!outcome.existed(order));
///     let mut seen = session.reader::<BTree<u64, String>>("shop/orders").await?;
///     assert_eq!(seen.get(&7).await?.as_deref(), Some("two pins"));
///     Ok::<(), structures::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Domain {
    name: String,
    writer: stonecast_structures::Writer,
}

/// Updates of structures of one lock domain that are done together or not at all. A crash leaves all of them or none.
/// Readers that read structure by structure may see a part while the transaction becomes visible.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    parts: Vec<(MemberIdentity, Update)>,
}

/// An update of a transaction, by which [`Outcome`] tells its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(usize);

/// The answers to the updates of a transaction.
#[derive(Clone, Debug)]
pub struct Outcome {
    name: String,
    answers: Vec<Answer>,
}

impl Outcome {
    /// Whether the key of an insert, update or removal had a value before; of a comparison: whether the key had the
    /// expected value.
    pub fn existed(&self, part: Part) -> bool {
        self.answers.get(part.0).is_some_and(is_so)
    }

    /// The value that a pop took from a structure of type `S`; `None`: there was none.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`].
    pub fn taken<S: Sequence>(&self, part: Part) -> Result<Option<S::Value>, Error> {
        let answer = self.answers.get(part.0);
        answer.map_or(Ok(None), |answer| taken::<S>(&self.name, answer))
    }
}

impl Part {
    pub(super) fn at(index: usize) -> Self {
        Self(index)
    }
}

impl Transaction {
    /// Updates of one structure.
    pub(super) fn of_one(of: &MemberIdentity, updates: impl Iterator<Item = Update>) -> Self {
        Self {
            parts: updates.map(|update| (of.clone(), update)).collect(),
        }
    }

    fn add<S: Shape>(&mut self, of: &Member<S>, update: Update) -> Part {
        self.parts.push((of.identity().clone(), update));
        Part(self.parts.len() - 1)
    }

    /// Gives `key` a value.
    pub fn insert<S: Keyed>(&mut self, of: &Member<S>, key: &S::Key, value: &S::Value) -> Part {
        self.add(of, Update::put::<S>(Verb::Insert, key, value))
    }

    /// Gives `key` a value if it has none.
    pub fn insert_if_absent<S: Keyed>(
        &mut self,
        of: &Member<S>,
        key: &S::Key,
        value: &S::Value,
    ) -> Part {
        self.add(of, Update::put::<S>(Verb::InsertIfAbsent, key, value))
    }

    /// Gives `key` another value if it has one.
    pub fn update<S: Keyed>(&mut self, of: &Member<S>, key: &S::Key, value: &S::Value) -> Part {
        self.add(of, Update::put::<S>(Verb::Update, key, value))
    }

    /// Gives `key` the value `new` if it has the value `expected`. The other updates are done in any case.
    pub fn compare_and_update<S: Keyed>(
        &mut self,
        of: &Member<S>,
        key: &S::Key,
        (expected, new): (&S::Value, &S::Value),
    ) -> Part {
        self.add(of, Update::compare::<S>(key, expected, new))
    }

    /// Removes `key`.
    pub fn remove<S: Keyed>(&mut self, of: &Member<S>, key: &S::Key) -> Part {
        self.add(of, Update::remove::<S>(key))
    }

    /// Puts a value in.
    pub fn push<S: Sequence>(&mut self, of: &Member<S>, value: &S::Value) -> Part {
        self.add(of, Update::push::<S>(value))
    }

    /// Takes the value that comes next.
    pub fn pop<S: Sequence>(&mut self, of: &Member<S>) -> Part {
        self.add(of, Update::pop())
    }
}

impl Domain {
    pub(super) fn new(name: &str, writer: stonecast_structures::Writer) -> Self {
        Self {
            name: name.to_owned(),
            writer,
        }
    }

    /// The structure `name` of the lock domain, which is made if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::OtherType`]: the structure is of another type. [`Error::Name`], [`Error::NoRoom`]: nothing was done.
    pub async fn structure<S: Shape>(&mut self, name: &str) -> Result<Member<S>, Error> {
        let whole = format!("{}/{name}", self.name);
        Name::parse(&whole)?;
        let number = self.number_of::<S>(&whole, name).await?;
        Ok(Member::new(self.identity_of(number, &whole)))
    }

    /// The identity of the structure with this number and whole name.
    pub(super) fn identity_of(&self, number: u32, name: &str) -> MemberIdentity {
        MemberIdentity {
            domain: self.writer.identity(),
            number,
            name: name.into(),
        }
    }

    /// The number of a structure. A structure that does not exist is refused.
    fn number_here(&self, asked: &MemberIdentity) -> Result<u32, Error> {
        let own = self.writer.identity();
        if asked.domain != own {
            return Err(asked.refused_by((&own, &self.name)));
        }
        let mut rows = self.roots().rows().iter();
        let row = rows.find(|row| row.number == asked.number);
        let row = row.ok_or_else(|| Error::NotFound {
            name: asked.name.to_string(),
        })?;
        Ok(row.number)
    }

    /// The number of a structure, which is made if it does not exist. `whole`: the name in messages.
    pub(super) async fn number_of<S: Shape>(
        &mut self,
        whole: &str,
        name: &str,
    ) -> Result<u32, Error> {
        if self.roots().named(name).is_none() {
            let create = Update {
                verb: Verb::Create,
                key: name.as_bytes().to_vec(),
                value: S::description().encode(),
            };
            let (_, ticket) = self.stage(whole, 0, &create, None).await?;
            self.publish_with(whole, &ticket).await?;
        }
        let row = self.roots().named(name).expect("it is there or was made");
        check::<S>(whole, row)?;
        Ok(row.number)
    }

    /// The structures, with everything staged.
    pub(super) fn roots(&self) -> &Roots {
        self.writer.roots()
    }

    /// Executes an update of the structure with this number, and stages it.
    pub(super) async fn stage(
        &mut self,
        name: &str,
        structure: u32,
        update: &Update,
        attempt: Option<Attempt>,
    ) -> Result<(Answer, stonecast_structures::Ticket), Error> {
        let operation = Operation {
            token: attempt.map_or(0, |attempt| attempt.token.get()),
            structure,
            verb: update.verb,
            key: &update.key,
            value: &update.value,
        };
        let staged = match attempt {
            None => self.writer.stage(&operation).await,
            Some(attempt) => self.writer.stage_again(&operation, attempt.since).await,
        };
        staged.map_err(|error| {
            // Nothing of this update was sent, but an earlier try may have been.
            let effect = attempt.map_or(Effect::None, |_| Effect::Unknown { token: None });
            Error::of(name, error, effect)
        })
    }

    /// Commits a transaction: durable, and visible to all readers, when the call returns.
    ///
    /// # Errors
    ///
    /// [`Error::OtherDomain`]: the transaction has a structure of another lock domain. [`Error::NotFound`]: a structure
    /// of the transaction has ended. [`Error::TooLarge`], [`Error::TooLong`], [`Error::NoRoom`]. After any of these
    /// errors, nothing was done. [`Error::TenureOver`], [`Error::Gone`]: [`Error::effect`] tells whether the whole
    /// transaction was done.
    pub async fn commit(&mut self, transaction: &Transaction) -> Result<Outcome, Error> {
        self.commit_with(transaction, None).await
    }

    /// Commits a transaction exactly once, however often the same attempt is repeated.
    /// ```
    /// use std::num::NonZeroU64;
    ///
    /// use stonecast::structures::{self, HashTable, Queue, Server, Transaction};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let server = Server::builder(folder.path().join("pool"))
    /// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
    /// let connection = structures::connect(&server.address().to_string())?;
    /// connection.run(async |session| {
    ///     let mut shop = session.domain("shop").await?;
    ///     let stock = shop.structure::<HashTable<u64, u64>>("stock").await?;
    ///     let jobs = shop.structure::<Queue<u64>>("jobs").await?;
    ///     assert_eq!(stock.name(), "shop/stock");
    ///     let mut order = Transaction::default();
    ///     order.insert_if_absent(&stock, &1, &10);
    ///     order.update(&stock, &1, &9);
    ///     order.remove(&stock, &2);
    ///     order.push(&jobs, &7);
    ///     let next = order.pop(&jobs);
    ///
    ///     let attempt = shop.attempt(NonZeroU64::MIN);
    ///     for _try in 0..2 {
    ///         let outcome = shop.commit_once(attempt, &order).await?; // done by the first try
    ///         assert_eq!(outcome.taken::<Queue<u64>>(next)?, Some(7));
    ///     }
    ///     shop.renew().await?;
    ///     println!("tenure {} ends", shop.tenure());
    ///     shop.release().await?;
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Domain::commit`], [`Error::Forgotten`], and [`Error::Token`]: nothing was done.
    pub async fn commit_once(
        &mut self,
        attempt: Attempt,
        transaction: &Transaction,
    ) -> Result<Outcome, Error> {
        self.commit_with(transaction, Some(attempt)).await
    }

    async fn commit_with(
        &mut self,
        transaction: &Transaction,
        attempt: Option<Attempt>,
    ) -> Result<Outcome, Error> {
        let mut group = Group::default();
        for (of, update) in &transaction.parts {
            group.push(&Operation {
                token: 0,
                structure: self.number_here(of)?,
                verb: update.verb,
                key: &update.key,
                value: &update.value,
            });
        }
        let update = Update {
            verb: Verb::Group,
            key: Vec::new(),
            value: group.value().to_vec(),
        };
        let name = self.name.clone();
        let (answer, ticket) = self.stage(&name, 0, &update, attempt).await?;
        self.publish_with(&name, &ticket).await?;
        Ok(Outcome {
            name,
            answers: match answer {
                Answer::Group(answers) => answers,
                answer => vec![answer],
            },
        })
    }

    /// Begins an attempt for a transaction, as [`Writer::attempt`](super::Writer::attempt) does for an update.
    pub fn attempt(&self, token: std::num::NonZeroU64) -> Attempt {
        Attempt {
            token,
            since: self.operations(),
        }
    }

    /// Makes everything staged durable, and visible to all readers.
    pub(super) async fn publish(&mut self, name: &str) -> Result<(), Error> {
        let staged = self.writer.ticket();
        self.publish_with(name, &staged).await
    }

    /// Makes everything staged durable, and visible to all readers. `ticket` belongs to the update of the call.
    pub(super) async fn publish_with(
        &mut self,
        name: &str,
        ticket: &stonecast_structures::Ticket,
    ) -> Result<(), Error> {
        let published = match self.reclaim().await {
            Ok(()) => self.writer.publish().await,
            Err(error) => Err(error),
        };
        published.map_err(|error| Error::of(name, error, effect_of(ticket)))
    }

    /// Begins to publish everything staged, and goes on.
    pub(super) async fn start_publication(&mut self, name: &str) -> Result<Publication, Error> {
        let staged = self.writer.ticket();
        let begun = match self.reclaim().await {
            Ok(()) => self.writer.start_publication().await,
            Err(error) => Err(error),
        };
        match begun {
            Ok(publication) => Ok(Publication::new(name, publication, staged)),
            Err(error) => Err(Error::of(name, error, effect_of(&staged))),
        }
    }

    /// Frees the oldest versions of multi-version structures, beyond those that are kept.
    async fn reclaim(&mut self) -> Result<(), FrontEndError> {
        for _ in 0..RECLAIMS_MAX {
            if self.roots().retired_units() <= OLD_VERSIONS_SIZE / UNIT_SIZE {
                break;
            }
            let reclaim = Operation {
                token: 0,
                structure: 0,
                verb: Verb::Reclaim,
                key: &[],
                value: &RECLAIMED.to_le_bytes(),
            };
            match self.writer.stage(&reclaim).await {
                Ok((_, _published)) => {}
                // A later publication finds the room. Staged updates are published all the same.
                Err(
                    FrontEndError::NoRoom
                    | FrontEndError::OverQuota { .. }
                    | FrontEndError::Stage(_),
                ) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self, name: &str) -> Result<(), Error> {
        let staged = self.writer.ticket();
        let flushed = self.writer.flush().await;
        flushed.map_err(|error| Error::of(name, error, effect_of(&staged)))
    }

    /// The value of an encoded key in the structure with this number, with everything staged.
    pub(super) async fn get(
        &mut self,
        name: &str,
        number: u32,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        // The root of a multi-version structure changes with each update.
        let structure = self.roots().structure(number);
        let structure = structure.expect("a writer has its structure until it drops it");
        let found = self.writer.get(&structure, key).await;
        found.map_err(|error| Error::of_read(name, error))
    }

    /// The end of a walk over the structure with this number, with everything staged.
    pub(super) async fn read<T: Traversal>(
        &mut self,
        name: &str,
        number: u32,
        walk: impl Fn(&Structure) -> Option<T>,
    ) -> Result<T::End, Error> {
        let structure = self.roots().structure(number);
        let structure = structure.expect("a writer has its structure until it drops it");
        let walk = walk(&structure).expect("its row says its kind");
        let end = self.writer.read(walk).await;
        end.map_err(|error| Error::of_read(name, error))
    }

    /// Reads the ways to encoded keys of the structure with this number, all at once.
    pub(super) async fn look_ahead(
        &mut self,
        name: &str,
        number: u32,
        keys: &[Vec<u8>],
    ) -> Result<(), Error> {
        let structure = self.roots().structure(number);
        let structure = structure.expect("a writer has its structure until it drops it");
        let looked = self.writer.look_ahead(&structure, keys).await;
        looked.map_err(|error| Error::of_read(name, error))
    }

    /// Reads values for a transaction, as they are with everything staged: all keys at once, so each level of the
    /// structures costs one round trip, and a place that the writer knows costs none. Nobody else changes the
    /// structures while the tenure lasts, so a transaction that rests on the values is serializable.
    ///
    /// The values are *provisional*: they count when a later [`Domain::commit`] returns, or [`Domain::confirm`]. A
    /// writer whose tenure is over without its knowledge sees values from before the next tenure, and its commit fails.
    ///
    /// ```
    /// use stonecast::structures::{self, BTree, HashTable, Look, Server, Transaction};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let server = Server::builder(folder.path().join("pool"))
    /// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
    /// let connection = structures::connect(&server.address().to_string())?;
    /// connection.run(async |session| {
    ///     let mut bank = session.domain("bank").await?;
    ///     let savings = bank.structure::<BTree<u64, u64>>("savings").await?;
    ///     let names = bank.structure::<HashTable<u64, String>>("names").await?;
    ///     let mut opening = Transaction::default();
    ///     opening.insert(&savings, &1, &100);
    ///     opening.insert(&names, &1, &"Ada".to_owned());
    ///     bank.commit(&opening).await?;
    ///
    ///     let mut look = Look::default();
    ///     let (saved, name) = (look.at(&savings, &1), look.at(&names, &1));
    ///     let found = bank.look(&look).await?;
    ///     let saved = found.value(saved)?.unwrap_or(0);
    ///     let mut interest = Transaction::default();
    ///     interest.insert(&savings, &1, &(saved + saved / 10));
    ///     bank.commit(&interest).await?; // the values count from here on
    ///     println!("{:?} has {}", found.value(name)?, saved + saved / 10);
    ///
    ///     let mut look = Look::default();
    ///     let saved = look.at(&savings, &1);
    ///     let found = bank.look(&look).await?;
    ///     bank.confirm().await?;
    ///     assert_eq!(found.value(saved)?, Some(110));
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OtherDomain`], [`Error::NotFound`]: as [`Domain::commit`]. [`Error::TenureOver`], [`Error::Gone`],
    /// [`Error::Damaged`].
    pub async fn look(&mut self, look: &Look) -> Result<Found, Error> {
        let here = |(of, key)| Ok((self.number_here(of)?, key));
        let keys = look.keys().map(here).collect::<Result<Vec<_>, Error>>()?;
        let values = self.writer.read_staged(&keys).await;
        Ok(Found {
            values: values.map_err(|error| Error::of_read(&self.name, error))?,
            name: self.name.clone(),
        })
    }

    /// Makes sure that the values of earlier calls of [`Domain::look`] count: waits until everything staged is durable,
    /// and checks that the tenure lasts. One round trip.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`]: the values do not count. [`Error::Gone`].
    pub async fn confirm(&mut self) -> Result<(), Error> {
        let staged = self.writer.ticket();
        let confirmed = self.writer.confirm().await;
        confirmed.map_err(|error| Error::of(&self.name, error, effect_of(&staged)))
    }

    /// Tells the back-end that this writer lives.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`].
    pub async fn renew(&self) -> Result<(), Error> {
        let renewed = self.writer.renew().await;
        renewed.map_err(|error| Error::of_read(&self.name, error))
    }

    /// The number of the operation that was staged last.
    pub(super) fn operations(&self) -> u64 {
        self.writer.operations()
    }

    /// Updates that are staged and not published.
    pub(super) fn staged(&self) -> u64 {
        self.writer.waiting()
    }

    /// Whether tickets end when both logs have the transaction, as [`Writer::mirror_log`](super::Writer::mirror_log)
    /// tells.
    ///
    /// # Errors
    ///
    /// [`NoMirrorLog`]: the reason.
    pub fn mirror_log(&self) -> Result<(), Rc<NoMirrorLog>> {
        self.writer.mirror_log()
    }

    /// The number of the writer's tenure.
    pub fn tenure(&self) -> u32 {
        self.writer.tenure()
    }

    /// Gives the tenure back. A writer that is dropped keeps its tenure until its connection or its lease ends.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`].
    pub async fn release(self) -> Result<(), Error> {
        self.end(Effect::None).await
    }

    /// Gives back a tenure that no writer will use; otherwise its lease ends it. The caller reports why, which says
    /// more than a release that fails.
    pub(super) async fn give_back(self) {
        let _either = self.release().await;
    }

    /// Gives the tenure back. `effect` is the effect of the call whose last step this is.
    pub(super) async fn end(self, effect: Effect) -> Result<(), Error> {
        let released = self.writer.release().await;
        released.map_err(|error| Error::of(&self.name, error, effect))
    }
}
