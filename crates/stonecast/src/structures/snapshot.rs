//! Snapshots: the multi-version structures of a lock domain as they were at one moment.

use std::rc::Rc;

use stonecast_structures::shapes::Roots;
use stonecast_structures::{BackEnd, DomainName, FrontEndError, StructureReader};

use super::error::Error;
use super::reader::Reader;
use super::session::{CACHE_SIZE, Session, check};
use super::tally::{OpenSnapshot, Tally};
use super::types::Versioned;

/// The multi-version structures of a lock domain as they were at one moment: a transaction over several of them is seen
/// whole or not at all.
///
/// A snapshot keeps nothing. The snapshot ends when the memory of its versions is used again: a writer of the library
/// keeps 4 MiB of old versions in a lock domain. Reads of a snapshot that has ended fail with [`Error::TooOld`], and
/// never give a value of another moment.
pub struct Snapshot {
    back_end: Rc<BackEnd>,
    domain: (DomainName, u32),
    roots: Rc<Roots>,
    tally: Rc<Tally>,
    open: Rc<OpenSnapshot>,
}

impl Session {
    /// A snapshot of the lock domain `name`.
    ///
    /// ```
    /// use stonecast::Durability;
    /// use stonecast::structures::{self, MvBTree, Server, Transaction};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let server = Server::builder(folder.path().join("pool"))
    ///     .durability(Durability::Process)
    ///     .capacity(32 << 20)
    ///     .serve()?;
    /// let connection = structures::connect(&server.address().to_string())?;
    /// connection.run(async |session| {
    ///     let mut bank = session.domain("bank").await?;
    ///     let accounts = bank.structure::<MvBTree<u64, u64>>("accounts").await?;
    ///     let mut transaction = Transaction::default();
    ///     transaction.insert(&accounts, &1, &50);
    ///     transaction.insert(&accounts, &2, &50);
    ///     bank.commit(&transaction).await?;
    ///
    ///     let snapshot = session.snapshot("bank").await?;
    ///     let mut then = snapshot.reader::<MvBTree<u64, u64>>("accounts").await?;
    ///     let mut transfer = Transaction::default();
    ///     transfer.insert(&accounts, &1, &20);
    ///     transfer.insert(&accounts, &2, &80);
    ///     bank.commit(&transfer).await?;
    ///     let mut now = session.reader::<MvBTree<u64, u64>>("bank/accounts").await?;
    ///     assert_eq!((then.get(&1).await?, then.get(&2).await?), (Some(50), Some(50)));
    ///     assert_eq!((now.get(&1).await?, now.get(&2).await?), (Some(20), Some(80)));
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: no lock domain has this name. [`Error::Gone`]: connect again.
    pub async fn snapshot(&self, name: &str) -> Result<Snapshot, Error> {
        let of = |error| Error::of_read(name, error);
        let domains = self.back_end.domains().await.map_err(of)?;
        let mut named = domains.iter().filter(|(_, known)| known.as_str() == name);
        let found = named.next().ok_or(of(FrontEndError::NoStructure))?;
        let mut reader = self.back_end.reader(found.0).await.map_err(of)?;
        Ok(Snapshot {
            back_end: self.back_end.clone(),
            domain: (found.1, found.0),
            roots: Rc::new(reader.roots().await.map_err(of)?),
            tally: self.tally.clone(),
            open: self.tally.open_snapshot(),
        })
    }
}

impl Snapshot {
    /// A reader of a structure of the lock domain, by its own name: `accounts`, and not `bank/accounts`. Any number of
    /// readers of one snapshot show the same moment.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: the structure did not exist at that moment. [`Error::OtherType`], [`Error::Gone`].
    pub async fn reader<S: Versioned>(&self, structure: &str) -> Result<Reader<S>, Error> {
        let (domain, number) = &self.domain;
        let name = format!("{}/{structure}", domain.as_str());
        let of = |error| Error::of_read(&name, error);
        let reader = self.back_end.reader(*number).await.map_err(of)?;
        let reader = reader.remembering(CACHE_SIZE);
        let reader = StructureReader::of_snapshot(reader, &self.roots, structure).map_err(of)?;
        check::<S>(&name, reader.row())?;
        let reader = Reader::new(&name, (reader, CACHE_SIZE), &self.tally);
        Ok(reader.of(&self.open))
    }
}
