//! Structures whose entries are spread over several back-ends, by the hashes of their keys.
//!
//! ```text
//!   key ──hash under the seed of the structure──▶ partition ──▶ back-end: lock domain, lease, log, tokens of its own
//! ```

mod part;
mod reader;
mod writer;

use stonecast_fabric::BusyPoll;
use stonecast_structures::{DomainName, Verb};

use super::domain::Domain;
use super::error::Error;
use super::session::{Name, Session, connected};
use super::types::Keyed;
use super::update::Update;
use super::writer::Writer;
use crate::connector::Connector;
use crate::open_device::OpenDevice;

use part::{Hashing, NamedPart, PARTITIONS_MAX, State, check_name, judge};
pub use reader::PartitionedReader;
pub use writer::{KeyOnce, PartitionedTransaction, PartitionedWriter};

/// Connects to several back-ends, for structures whose entries are spread over them. All back-ends are named, in the
/// order of the partitions: the first one has partition 1.
///
/// ```
/// use stonecast::Durability;
/// use stonecast::structures::{self, HashTable, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let serve = |name: &str| {
/// #     let server = Server::builder(folder.path().join(name));
/// #     server.durability(Durability::Process).capacity(32 << 20).serve()
/// # };
/// let servers = [serve("first")?, serve("second")?];
/// let urls: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
/// let connections = structures::connect_all(urls.iter().map(String::as_str))?;
/// connections.run(async |sessions| {
///     let mut stock = sessions.writer::<HashTable<String, u64>>("stock").await?;
///     for (count, article) in ["nails", "pins", "screws"].into_iter().enumerate() {
///         stock.stage(&article.to_owned(), &(count as u64)).await?.await?; // durable
///     }
///     stock.publish().await?; // visible
///     let mut seen = sessions.reader::<HashTable<String, u64>>("stock").await?;
///     let (pins, glue) = ("pins".to_owned(), "glue".to_owned());
///     assert_eq!(seen.get_many([&pins, &glue]).await?, [Some(1), None]);
///     Ok::<(), structures::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`Error::Connect`]: a back-end does not accept the connection, a text is not an address, or the number of addresses
/// is 0 or above 256.
pub fn connect_all<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<Connections, Error> {
    let connectors = urls.into_iter().map(Connector::new);
    let connectors = connectors.collect::<Result<Vec<_>, _>>()?;
    Connections::open(&connectors)
}

/// Connections to several back-ends, and the loop that drives them. All of it belongs to one thread. Futures of its
/// [`Sessions`] make progress only inside [`Connections::run`].
pub struct Connections {
    executor: BusyPoll,
    sessions: Sessions,
}

impl Connections {
    /// Connects as the connectors say, over the device of the first one: all addresses are `shm:`, or all are `verbs:`.
    ///
    /// # Errors
    ///
    /// The errors of [`connect_all`].
    pub fn open(connectors: &[Connector]) -> Result<Self, Error> {
        let count = connectors.len();
        let Some(first) = connectors.first().filter(|_| count <= PARTITIONS_MAX) else {
            let words = format!("{count} back-ends were named, expected 1 to {PARTITIONS_MAX}");
            return Err(crate::Error::from(crate::ErrorKind::Setup(words)).into());
        };
        Self::over(first.open_device()?, connectors)
    }

    /// Connects as [`Connections::open`] does, over a device of the caller.
    ///
    /// # Errors
    ///
    /// The errors of [`connect_all`].
    pub fn over(device: OpenDevice, connectors: &[Connector]) -> Result<Self, Error> {
        let (executor, sessions) = connected(device, connectors)?;
        let sessions = Sessions { sessions };
        Ok(Self { executor, sessions })
    }

    /// Runs `work` to its end. Must not be called from inside a task of these connections.
    pub fn run<T>(&self, work: impl AsyncFnOnce(&Sessions) -> T) -> T {
        self.executor.block_on(work(&self.sessions))
    }
}

/// Sessions with several back-ends, in the order of the partitions. A clone is another handle of the same connections.
#[derive(Clone)]
pub struct Sessions {
    sessions: Vec<Session>,
}

impl Sessions {
    /// The session with each back-end.
    pub fn each(&self) -> &[Session] {
        &self.sessions
    }

    /// Becomes the writer of all partitions of the structure `name`, which is made if it does not exist: each partition
    /// has a lease of its own. A structure with partitions has a name of at most 32 bytes, without the name of its lock
    /// domain. The number of partitions never changes.
    ///
    /// If the client dies while it makes the structure, the next writer finishes the work, with the same back-ends.
    ///
    /// # Errors
    ///
    /// [`Error::Partition`]: the structure has other back-ends, or another order of them. [`Error::Held`]: another
    /// front-end writes a partition; the partitions that were taken are given back. Otherwise the errors of
    /// [`Session::writer`].
    pub async fn writer<S: Keyed>(&self, name: &str) -> Result<PartitionedWriter<S>, Error> {
        let parsed = Name::parse(name)?;
        check_name(name, parsed.structure)?;
        let mut domains = Vec::with_capacity(self.sessions.len());
        for session in &self.sessions {
            match session.lock(name, parsed.domain).await {
                Ok(domain) => domains.push(domain),
                Err(error) => {
                    give_back(domains).await;
                    return Err(error);
                }
            }
        }
        match open_parts::<S>(&parsed, &mut domains).await {
            Ok((hashing, numbers)) => {
                let parts = domains.into_iter().zip(numbers);
                let writers = parts.map(|(domain, number)| Writer::new(name, domain, number));
                Ok(PartitionedWriter::new(name, hashing, writers.collect()))
            }
            Err(error) => {
                give_back(domains).await;
                Err(error)
            }
        }
    }

    /// A reader of all partitions of the structure `name`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: no writer has made the structure. [`Error::Partition`]: the structure has other back-ends,
    /// or another order of them. Otherwise the errors of [`Session::reader`].
    pub async fn reader<S: Keyed>(&self, name: &str) -> Result<PartitionedReader<S>, Error> {
        let parsed = Name::parse(name)?;
        let mut found = Vec::with_capacity(self.sessions.len());
        for session in &self.sessions {
            let names = session.names(parsed.domain).await?;
            found.push(parts_among(&parsed, names.iter().map(String::as_str)));
        }
        let State::Whole(hashing) = judge(name, &found)? else {
            return Err(Error::NotFound {
                name: name.to_owned(),
            });
        };
        let mut readers = Vec::with_capacity(self.sessions.len());
        for (index, session) in self.sessions.iter().enumerate() {
            let is_own = |part: &&NamedPart| part.index == index && part.hashing == hashing;
            let part = found[index].iter().find(is_own).expect("it was judged");
            let own = full_name(parsed.domain, &part.name(parsed.structure));
            readers.push(session.reader::<S>(&own).await?);
        }
        Ok(PartitionedReader::new(hashing, readers))
    }
}

/// Gives back tenures that no writer will use.
async fn give_back(domains: Vec<Domain>) {
    for domain in domains {
        domain.give_back().await;
    }
}

fn full_name(domain: DomainName, structure: &str) -> String {
    format!("{}/{structure}", domain.as_str())
}

/// The parts of the structure among the structures of a lock domain.
fn parts_among<'a>(name: &Name<'_>, names: impl Iterator<Item = &'a str>) -> Vec<NamedPart> {
    let parts = names.filter_map(|other| NamedPart::parse(name.structure, other));
    parts.collect()
}

/// Finds the parts of the structure, or makes them. Returns the number of each in its lock domain.
async fn open_parts<S: Keyed>(
    name: &Name<'_>,
    domains: &mut [Domain],
) -> Result<(Hashing, Vec<u32>), Error> {
    let found: Vec<Vec<NamedPart>> = domains
        .iter()
        .map(|domain| {
            let rows = domain.roots().rows().iter();
            parts_among(name, rows.map(|row| &*row.name))
        })
        .collect();
    let hashing = match judge(name.whole, &found)? {
        State::Whole(hashing) => hashing,
        State::Unfinished(seed) => {
            let seed = match seed {
                Some(seed) => seed,
                None => u64::from_le_bytes(crate::entropy::entropy()?),
            };
            let count = domains.len();
            let hashing = Hashing { count, seed };
            make_parts::<S>(name, domains, (hashing, &found)).await?;
            hashing
        }
    };
    let mut numbers = Vec::with_capacity(domains.len());
    for (index, domain) in domains.iter_mut().enumerate() {
        let part = |is_new| NamedPart {
            index,
            hashing,
            is_new,
        };
        let (new, last) = (
            part(true).name(name.structure),
            part(false).name(name.structure),
        );
        if domain.roots().named(&last).is_none() {
            change(name, domain, (Verb::Rename, &new, &last)).await?;
        }
        let own = full_name(name.domain, &last);
        numbers.push(domain.number_of::<S>(&own, &last).await?);
    }
    Ok((hashing, numbers))
}

/// Makes a new part in each back-end. Parts from an earlier attempt hold nothing and are dropped.
async fn make_parts<S: Keyed>(
    name: &Name<'_>,
    domains: &mut [Domain],
    (hashing, found): (Hashing, &[Vec<NamedPart>]),
) -> Result<(), Error> {
    for (index, domain) in domains.iter_mut().enumerate() {
        let own = NamedPart {
            index,
            hashing,
            is_new: true,
        };
        for other in found[index].iter().filter(|part| **part != own) {
            let other = other.name(name.structure);
            change(name, domain, (Verb::Drop, &other, "")).await?;
        }
        let own = own.name(name.structure);
        let _number = domain
            .number_of::<S>(&full_name(name.domain, &own), &own)
            .await?;
    }
    Ok(())
}

/// Changes the table of structures of a lock domain.
async fn change(
    name: &Name<'_>,
    domain: &mut Domain,
    (verb, key, value): (Verb, &str, &str),
) -> Result<(), Error> {
    let update = Update {
        verb,
        key: key.as_bytes().to_vec(),
        value: value.as_bytes().to_vec(),
    };
    let (_, _published) = domain.stage(name.whole, 0, &update, None).await?;
    domain.publish(name.whole).await
}
