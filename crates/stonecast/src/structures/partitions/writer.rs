//! Writers of structures with partitions.

use std::marker::PhantomData;
use std::num::NonZeroU64;

use futures_util::future::try_join_all;
use stonecast_structures::{Key as _, Verb};

use super::part::Hashing;
use crate::structures::attempt::{Attempt, Once};
use crate::structures::domain::{Outcome, Part, Transaction};
use crate::structures::error::Error;
use crate::structures::types::{Keyed, Shape};
use crate::structures::update::Update;
use crate::structures::writer::{Ticket, Writer};

/// Keys and values of one partition.
type Entries<'a, S> = Vec<(&'a <S as Keyed>::Key, &'a <S as Shape>::Value)>;

/// The writer of all partitions of a structure of type `S`. [`Sessions::writer`](super::Sessions::writer) makes it.
/// Each partition has a tenure of its own: a partition whose tenure is over ([`Error::TenureOver`]) refuses its
/// updates, and the other partitions go on. A call with the name of a call of [`Writer`] means the same.
/// ```
/// use stonecast::structures::{self, HashTable, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let serve = |name: &str| {
/// #     let server = Server::builder(folder.path().join(name));
/// #     server.durability(stonecast::Durability::Process).capacity(32 << 20).serve()
/// # };
/// let servers = [serve("first")?, serve("second")?];
/// let urls: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
/// let connections = structures::connect_all(urls.iter().map(String::as_str))?;
/// connections.run(async |sessions| {
///     assert_eq!(sessions.each().len(), 2);
///     let mut stock = sessions.writer::<HashTable<u64, u64>>("stock").await?;
///     stock.insert_all([(&1, &10), (&2, &20), (&3, &30)]).await?; // one publication for each partition
///     let ticket = stock.stage(&4, &40).await?;
///     assert_eq!(stock.staged(), 1);
///     stock.flush().await?;
///     ticket.await?;
///     stock.publish().await?;
///
///     let mut order = stock.transaction(); // all of its keys lie in one partition
///     order.insert_if_absent(&1, &11);
///     order.update(&1, &12);
///     let changed = order.compare_and_update(&1, (&12, &13));
///     let removed = order.remove(&1);
///     let outcome = stock.commit(order).await?;
///     assert!(outcome.existed(changed) && outcome.existed(removed));
///     stock.renew().await?;
///     stock.release().await?;
///     Ok::<(), structures::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PartitionedWriter<S: Keyed> {
    name: String,
    hashing: Hashing,
    partitions: Vec<Writer<S>>,
}

macro_rules! by_key {
    ($($(#[doc = $what:literal])+ $name:ident($($argument:ident: $of:ty),*) -> $result:ty;)+) => {
        $(
            $(#[doc = $what])+
            ///
            /// # Errors
            ///
            #[doc = concat!("The errors of [`Writer::", stringify!($name), "`].")]
            /// [`Error::effect`] tells the effect on the entry.
            pub async fn $name(&mut self, key: &S::Key, $($argument: $of),*) -> Result<$result, Error> {
                self.partition(key).$name(key, $($argument),*).await
            }
        )+
    };
}

impl<S: Keyed> PartitionedWriter<S> {
    pub(super) fn new(name: &str, hashing: Hashing, partitions: Vec<Writer<S>>) -> Self {
        Self {
            name: name.to_owned(),
            hashing,
            partitions,
        }
    }

    /// The writer of the partition that has a key.
    fn partition(&mut self, key: &S::Key) -> &mut Writer<S> {
        &mut self.partitions[self.hashing.partition_of(&key.encoded())]
    }

    by_key! {
        /// Gives `key` a value. Returns whether `key` had one before.
        insert(value: &S::Value) -> bool;
        /// Gives `key` a value if it has none. Returns whether `key` had one.
        insert_if_absent(value: &S::Value) -> bool;
        /// Gives `key` another value if it has one. Returns whether `key` had one.
        update(value: &S::Value) -> bool;
        /// Gives `key` the value `new` if it has the value `expected`. Returns whether `key` had `expected`.
        compare_and_update(expected: &S::Value, new: &S::Value) -> bool;
        /// Removes `key`. Returns whether `key` had a value.
        remove() -> bool;
        /// The value of `key` with everything staged in its partition.
        get() -> Option<S::Value>;
        /// Stages that `key` gets a value.
        stage(value: &S::Value) -> Ticket;
        /// Stages the removal of `key`.
        stage_remove() -> Ticket;
    }

    /// Gives keys values, as [`Writer::insert_all`] does: in all partitions at once, with one publication each.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::insert_all`] for the partition that fails, and [`Error::effect`] tells the effect there.
    /// Entries of other partitions may be done or not.
    pub async fn insert_all<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a S::Key, &'a S::Value)>,
    ) -> Result<(), Error>
    where
        S::Key: 'a,
        S::Value: 'a,
    {
        let parts = self.split(entries);
        let inserts = parts.map(|(writer, entries)| writer.insert_all(entries));
        try_join_all(inserts).await.map(drop)
    }

    /// Does the same as [`PartitionedWriter::insert_all`]: the entries of each partition keep their order, and are
    /// loaded there as by [`Writer::bulk_load`].
    ///
    /// # Errors
    ///
    /// Those of [`Writer::bulk_load`].
    pub async fn bulk_load<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a S::Key, &'a S::Value)>,
    ) -> Result<(), Error>
    where
        S::Key: 'a,
        S::Value: 'a,
    {
        let parts = self.split(entries);
        let loads = parts.map(|(writer, entries)| writer.bulk_load(entries));
        try_join_all(loads).await.map(drop)
    }

    /// The writer of each partition with the entries of that partition.
    fn split<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a S::Key, &'a S::Value)>,
    ) -> impl Iterator<Item = (&mut Writer<S>, Entries<'a, S>)>
    where
        S::Key: 'a,
        S::Value: 'a,
    {
        let mut of_partitions: Vec<Entries<'a, S>> = Vec::new();
        of_partitions.resize_with(self.partitions.len(), Vec::new);
        for (key, value) in entries {
            let partition = self.hashing.partition_of(&key.encoded());
            of_partitions[partition].push((key, value));
        }
        self.partitions.iter_mut().zip(of_partitions)
    }

    /// Makes everything staged durable, and visible to all readers, partition by partition: a reader may see the
    /// updates of one partition first.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::publish`]. Updates of other partitions may be done or not.
    pub async fn publish(&mut self) -> Result<(), Error> {
        let all = self.partitions.iter_mut().map(Writer::publish);
        try_join_all(all).await.map(drop)
    }

    /// Makes everything staged durable.
    ///
    /// # Errors
    ///
    /// The errors of [`PartitionedWriter::publish`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        let all = self.partitions.iter_mut().map(Writer::flush);
        try_join_all(all).await.map(drop)
    }

    /// Tells all back-ends that this writer lives.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::renew`].
    pub async fn renew(&self) -> Result<(), Error> {
        let all = self.partitions.iter().map(Writer::renew);
        try_join_all(all).await.map(drop)
    }

    /// Updates that are staged and not published.
    pub fn staged(&self) -> u64 {
        self.partitions.iter().map(Writer::staged).sum()
    }

    /// Publishes staged updates, and gives all tenures back.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::release`]. All partitions that can be released are; the first error is returned.
    pub async fn release(self) -> Result<(), Error> {
        let mut first = Ok(());
        for writer in self.partitions {
            let released = writer.release().await;
            first = first.and(released);
        }
        first
    }

    /// Begins an attempt for an update of `key`, as [`Writer::attempt`].
    pub fn attempt(&self, key: &S::Key, token: NonZeroU64) -> Attempt {
        let partition = self.hashing.partition_of(&key.encoded());
        self.partitions[partition].attempt(token)
    }

    /// Updates `key` with an attempt that was begun for this key, as [`Writer::once`]. The partition of the key keeps
    /// the result.
    pub fn once<'a>(&'a mut self, key: &'a S::Key, attempt: Attempt) -> KeyOnce<'a, S> {
        KeyOnce {
            once: self.partition(key).once(attempt),
            key,
        }
    }

    /// An empty transaction. All of its keys have to lie in one partition.
    pub fn transaction(&self) -> PartitionedTransaction<S> {
        PartitionedTransaction {
            name: self.name.clone(),
            hashing: self.hashing,
            parts: Vec::new(),
            shape: PhantomData,
        }
    }

    /// Commits a transaction, all of it or nothing: durable and visible to all readers when the call returns.
    ///
    /// # Errors
    ///
    /// [`Error::AcrossPartitions`]: the transaction has keys of several partitions, and nothing was done.
    /// [`Error::OtherDomain`]: the writer of another structure began the transaction. Otherwise the errors of
    /// [`Domain::commit`](crate::structures::Domain::commit).
    pub async fn commit(
        &mut self,
        transaction: PartitionedTransaction<S>,
    ) -> Result<Outcome, Error> {
        if transaction.hashing != self.hashing {
            return Err(Error::OtherDomain {
                name: transaction.name,
                found: "other partitions".to_owned(),
                asked: format!("the structure {:?}", self.name),
            });
        }
        let mut partitions = transaction.parts.iter().map(|(partition, _)| *partition);
        let first = partitions.next().unwrap_or(0);
        if let Some(other) = partitions.find(|other| *other != first) {
            return Err(Error::AcrossPartitions {
                name: self.name.clone(),
                first: first + 1,
                other: other + 1,
            });
        }
        let writer = &mut self.partitions[first];
        let updates = transaction.parts.into_iter().map(|(_, update)| update);
        let transaction = Transaction::of_one(&writer.identity(), updates);
        writer.domain.commit(&transaction).await
    }
}

/// The update of one key with an [`Attempt`]; see [`PartitionedWriter::once`].
pub struct KeyOnce<'a, S: Keyed> {
    once: Once<'a, S>,
    key: &'a S::Key,
}

macro_rules! once {
    ($($(#[doc = $what:literal])+ $name:ident($($argument:ident: $of:ty),*);)+) => {
        $(
            $(#[doc = $what])+
            ///
            /// # Errors
            ///
            #[doc = concat!("The errors of [`Once::", stringify!($name), "`].")]
            /// [`Error::effect`] tells the effect on the entry.
            pub async fn $name(self, $($argument: $of),*) -> Result<bool, Error> {
                self.once.$name(self.key, $($argument),*).await
            }
        )+
    };
}

impl<S: Keyed> KeyOnce<'_, S> {
    once! {
        /// Gives the key a value. Returns whether the key had one before.
        insert(value: &S::Value);
        /// Gives the key a value if it has none. Returns whether the key had one.
        insert_if_absent(value: &S::Value);
        /// Gives the key another value if it has one. Returns whether the key had one.
        update(value: &S::Value);
        /// Gives the key the value `new` if it has the value `expected`. Returns whether the key had `expected`.
        compare_and_update(expected: &S::Value, new: &S::Value);
        /// Removes the key. Returns whether the key had a value.
        remove();
    }
}

/// Updates of keys of one partition that are done together or not at all.
pub struct PartitionedTransaction<S: Keyed> {
    /// The structure.
    name: String,
    /// Differs between any two structures.
    hashing: Hashing,
    /// Each update with the partition of its key.
    parts: Vec<(usize, Update)>,
    shape: PhantomData<S>,
}

impl<S: Keyed> PartitionedTransaction<S> {
    fn add(&mut self, update: Update) -> Part {
        let partition = self.hashing.partition_of(&update.key);
        self.parts.push((partition, update));
        Part::at(self.parts.len() - 1)
    }

    /// Gives `key` a value.
    pub fn insert(&mut self, key: &S::Key, value: &S::Value) -> Part {
        self.add(Update::put::<S>(Verb::Insert, key, value))
    }

    /// Gives `key` a value if it has none.
    pub fn insert_if_absent(&mut self, key: &S::Key, value: &S::Value) -> Part {
        self.add(Update::put::<S>(Verb::InsertIfAbsent, key, value))
    }

    /// Gives `key` another value if it has one.
    pub fn update(&mut self, key: &S::Key, value: &S::Value) -> Part {
        self.add(Update::put::<S>(Verb::Update, key, value))
    }

    /// Gives `key` the value `new` if it has the value `expected`. The other updates are done in any case.
    pub fn compare_and_update(
        &mut self,
        key: &S::Key,
        (expected, new): (&S::Value, &S::Value),
    ) -> Part {
        self.add(Update::compare::<S>(key, expected, new))
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &S::Key) -> Part {
        self.add(Update::remove::<S>(key))
    }
}
