//! Writers of structures, and the tickets of what they stage.

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use stonecast_structures::shapes::Answer;
use stonecast_structures::{Comparison, Operation, UNIT_SIZE, Verb};

use super::error::Error;
use super::session::Name;
use super::types::{Keyed, Sequence, Shape, Value};

/// Bytes of old versions that a lock domain keeps. A reader that needs older ones begins again.
const OLD_VERSIONS_SIZE: u64 = 4 << 20;
/// Blocks of old versions that one operation frees.
const RECLAIMED: u32 = 127;
/// Operations before a publication that free blocks, at most.
const RECLAIMS_MAX: u32 = 64;

/// The writer of a structure of type `S`. It has the tenure of the structure's lock domain until it is dropped, or silent for longer than its lease.
///
/// | call | when it returns |
/// | --- | --- |
/// | `insert` and every other update | durable, and visible to all readers |
/// | `stage` and the like | executed; durable when its [`Ticket`] ends, visible after [`Writer::publish`] |
///
/// A lock domain whose structures have no room gets more memory of the pool.
pub struct Writer<S: Shape> {
    name: String,
    writer: stonecast_structures::Writer,
    number: u32,
    shape: PhantomData<S>,
}

/// A staged update: the future ends when the update is durable. A ticket that is dropped changes nothing.
#[must_use = "the update is durable when the ticket has ended well"]
pub struct Ticket {
    name: String,
    ticket: stonecast_structures::Ticket,
}

impl Future for Ticket {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.ticket).poll(context);
        polled.map_err(|error| Error::of(&self.name, error))
    }
}

impl<S: Shape> Writer<S> {
    pub(super) fn new(name: &str, writer: stonecast_structures::Writer, number: u32) -> Self {
        Self {
            name: name.to_owned(),
            writer,
            number,
            shape: PhantomData,
        }
    }

    async fn stage_operation(
        &mut self,
        verb: Verb,
        key: &[u8],
        value: &[u8],
    ) -> Result<(Answer, Ticket), Error> {
        let operation = Operation {
            token: 0,
            structure: self.number,
            verb,
            key,
            value,
        };
        let staged = self.writer.stage(&operation).await;
        let (answer, ticket) = staged.map_err(|error| Error::of(&self.name, error))?;
        let name = self.name.clone();
        Ok((answer, Ticket { name, ticket }))
    }

    async fn update_now(&mut self, verb: Verb, key: &[u8], value: &[u8]) -> Result<Answer, Error> {
        let (answer, _ticket) = self.stage_operation(verb, key, value).await?;
        self.publish().await?;
        Ok(answer)
    }

    /// Makes everything staged durable, and visible to all readers.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`]: what was staged may be done or not.
    pub async fn publish(&mut self) -> Result<(), Error> {
        self.reclaim().await?;
        let published = self.writer.publish().await;
        published.map_err(|error| Error::of(&self.name, error))
    }

    /// Frees the oldest versions of multi-version structures of the lock domain, beyond those that are kept.
    async fn reclaim(&mut self) -> Result<(), Error> {
        for _ in 0..RECLAIMS_MAX {
            if self.writer.roots().retired_units() <= OLD_VERSIONS_SIZE / UNIT_SIZE {
                break;
            }
            let reclaim = Operation {
                token: 0,
                structure: 0,
                verb: Verb::Reclaim,
                key: &[],
                value: &RECLAIMED.to_le_bytes(),
            };
            let staged = self.writer.stage(&reclaim).await;
            let (_, _published) = staged.map_err(|error| Error::of(&self.name, error))?;
        }
        Ok(())
    }

    /// Makes everything staged durable.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::publish`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.writer.flush().await;
        flushed.map_err(|error| Error::of(&self.name, error))
    }

    /// Tells the back-end that this writer lives.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`].
    pub async fn renew(&self) -> Result<(), Error> {
        let renewed = self.writer.renew().await;
        renewed.map_err(|error| Error::of(&self.name, error))
    }

    /// Updates that are staged and not published.
    pub fn staged(&self) -> u64 {
        self.writer.waiting()
    }

    /// The number of the writer's tenure.
    pub fn tenure(&self) -> u32 {
        self.writer.tenure()
    }

    /// Publishes what is staged, and gives the tenure back. A writer that is dropped keeps its tenure until its connection or its lease ends.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::publish`].
    pub async fn release(mut self) -> Result<(), Error> {
        self.publish().await?;
        let released = self.writer.release().await;
        released.map_err(|error| Error::of(&self.name, error))
    }
}

impl<S: Shape> Writer<S> {
    async fn change_domain(&mut self, verb: Verb, value: &[u8]) -> Result<Answer, Error> {
        let operation = Operation {
            token: 0,
            structure: 0,
            verb,
            key: part_of(&self.name).as_bytes(),
            value,
        };
        let of = |error| Error::of(&self.name, error);
        let (answer, _ticket) = self.writer.stage(&operation).await.map_err(of)?;
        self.publish().await?;
        Ok(answer)
    }

    /// Makes the structure empty. Readers go on with the empty one. Its blocks are freed by and by, with later publications.
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
        if self.writer.roots().named(structure).is_some() {
            return Err(Error::Taken { name });
        }
        self.change_domain(Verb::Rename, structure.as_bytes())
            .await?;
        self.name = name;
        Ok(())
    }

    /// Ends the structure, and gives the tenure back. Its blocks are freed by and by, with later publications of the lock domain.
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

fn existed(answer: &Answer) -> bool {
    matches!(answer, Answer::Existed(true))
}

impl<S: Keyed> Writer<S> {
    /// Gives `key` a value. Returns whether it had one before.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::NoRoom`]: nothing was done. [`Error::TenureOver`], [`Error::Gone`]: it may be done or not.
    pub async fn insert(&mut self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        let answer = self
            .update_now(Verb::Insert, &key_of::<S>(key), &value.encode())
            .await?;
        Ok(existed(&answer))
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
        let answer = self
            .update_now(Verb::InsertIfAbsent, &key_of::<S>(key), &value.encode())
            .await?;
        Ok(existed(&answer))
    }

    /// Gives `key` another value if it has one. Returns whether it had one.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn update(&mut self, key: &S::Key, value: &S::Value) -> Result<bool, Error> {
        let answer = self
            .update_now(Verb::Update, &key_of::<S>(key), &value.encode())
            .await?;
        Ok(existed(&answer))
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
        let (expected, new) = (expected.encode(), new.encode());
        let comparison = Comparison {
            expected: &expected,
            new: &new,
        };
        let answer = self
            .update_now(
                Verb::CompareAndUpdate,
                &key_of::<S>(key),
                &comparison.encode(),
            )
            .await?;
        Ok(answer == Answer::Changed(true))
    }

    /// Removes `key`. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn remove(&mut self, key: &S::Key) -> Result<bool, Error> {
        let answer = self
            .update_now(Verb::Remove, &key_of::<S>(key), &[])
            .await?;
        Ok(existed(&answer))
    }

    /// Gives keys values, all of them with one publication. Nothing of it is visible earlier, except where it outgrows the log.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`], for the first entry that fails; those before it are staged.
    pub async fn insert_all<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a S::Key, &'a S::Value)>,
    ) -> Result<(), Error>
    where
        S::Key: 'a,
        S::Value: 'a,
    {
        for (key, value) in entries {
            let _ticket = self.stage(key, value).await?;
        }
        self.publish().await
    }

    /// Stages that `key` gets a value.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn stage(&mut self, key: &S::Key, value: &S::Value) -> Result<Ticket, Error> {
        let (_, ticket) = self
            .stage_operation(Verb::Insert, &key_of::<S>(key), &value.encode())
            .await?;
        Ok(ticket)
    }

    /// Stages the removal of `key`.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::insert`].
    pub async fn stage_remove(&mut self, key: &S::Key) -> Result<Ticket, Error> {
        let (_, ticket) = self
            .stage_operation(Verb::Remove, &key_of::<S>(key), &[])
            .await?;
        Ok(ticket)
    }

    /// The value of `key` with everything staged, which is made durable first.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`], [`Error::Damaged`], [`Error::Decode`].
    pub async fn get(&mut self, key: &S::Key) -> Result<Option<S::Value>, Error> {
        // The root of a multi-version structure changes with each update.
        let structure = self.writer.roots().structure(self.number);
        let structure = structure.expect("a writer has its structure until it drops it");
        let found = self.writer.get(&structure, &key_of::<S>(key)).await;
        let found = found.map_err(|error| Error::of(&self.name, error))?;
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
    /// [`Error::TooLarge`], [`Error::NoRoom`]: nothing was done. [`Error::TenureOver`], [`Error::Gone`]: it may be done or not.
    pub async fn push(&mut self, value: &S::Value) -> Result<(), Error> {
        self.update_now(Verb::Push, &[], &value.encode()).await?;
        Ok(())
    }

    /// Takes the value that comes next; `None`: there is none. The value is gone for everybody when the call returns.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::push`], and [`Error::Decode`].
    pub async fn pop(&mut self) -> Result<Option<S::Value>, Error> {
        match self.update_now(Verb::Pop, &[], &[]).await? {
            Answer::Taken(Some(bytes)) => decoded::<S>(&self.name, &bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// Stages that a value is put in.
    ///
    /// # Errors
    ///
    /// The same as [`Writer::push`].
    pub async fn stage_push(&mut self, value: &S::Value) -> Result<Ticket, Error> {
        let (_, ticket) = self
            .stage_operation(Verb::Push, &[], &value.encode())
            .await?;
        Ok(ticket)
    }
}

fn key_of<S: Keyed>(key: &S::Key) -> Vec<u8> {
    use stonecast_structures::Key as _;
    key.encoded()
}

pub(super) fn decoded<S: Shape>(name: &str, bytes: &[u8]) -> Result<S::Value, Error> {
    S::Value::decode(bytes).ok_or_else(|| Error::Decode {
        name: name.to_owned(),
        size: bytes.len(),
        what: S::words(),
    })
}
