//! A writer: one of the paper's variants as a policy over the traversals of `structures`.
//!
//! | variant | reads | an update | acknowledged |
//! | --- | --- | --- | --- |
//! | naive | READs | a WRITE for each change of the structure | by the NIC, each |
//! | R | READs | its changes as one transaction of the memory log | by the NIC |
//! | RC | cache, READs | as R | by the NIC |
//! | RCB | cache, READs; one round trip a level for a batch | an operation log each, a transaction for a batch | by the NIC, the operation log |
//! | Symmetric | local memory | applied and persisted locally; the log goes to the back-end | when it is persisted locally |
//! | Symmetric-B | local memory | the same for a batch | with its batch |

use std::collections::HashMap;
use std::rc::Rc;

use stonecast_base::{LINE_SIZE, Span};
use stonecast_media::{PersistentRegion, Region};
use stonecast_persist::execute::Commit;
use stonecast_structures::shapes::{Description, Many, ReadRoots, Structure};
use stonecast_structures::{
    Append, Chain, DomainWriter, Grant, Group, HEADER_SIZE, LogArea, LogKey, Mark, Operation,
    StageFault, Territory, Verb,
};

use super::cache::{Cache, CacheOptions};
use super::layout::AsymLayout;
use super::log::{MemoryLog, OperationLog};
use super::session::{AsymSession, SessionCounts};
use super::view::{Source, View};
use crate::PublishedError;

/// Names the tags of blocks. The published nodes have none; the traversals check them.
pub(super) const KEY: LogKey = LogKey(5);
pub(super) const DOMAIN: u32 = 1;
/// The number of the structure of an instance.
pub(super) const STRUCTURE: u32 = 1;
/// The number of a writer's first record: the blocks that were loaded have smaller ones.
const FIRST: u64 = 1 << 20;
/// Bytes of the ring whose positions a writer counts. Nothing of it is kept.
const RING: u64 = 1 << 30;

/// A variant of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Structures in local persistent memory, a log in remote memory that no operation waits for.
    Symmetric,
    /// The symmetric setting with batches.
    SymmetricB,
    /// READs and WRITEs.
    Naive,
    /// With the memory log.
    R,
    /// With memory log and cache.
    Rc,
    /// With operation log, cache and batches.
    Rcb,
}

impl Variant {
    /// All variants, in the order of Table 2.
    pub const ALL: [Self; 6] = [
        Self::Symmetric,
        Self::SymmetricB,
        Self::Naive,
        Self::R,
        Self::Rc,
        Self::Rcb,
    ];

    /// The name in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric",
            Self::SymmetricB => "symmetric-b",
            Self::Naive => "naive",
            Self::R => "r",
            Self::Rc => "rc",
            Self::Rcb => "rcb",
        }
    }

    /// Whether the data are in the memory of the front-end's machine.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Symmetric | Self::SymmetricB)
    }

    const fn has_batches(self) -> bool {
        matches!(self, Self::SymmetricB | Self::Rcb)
    }
}

/// The options of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriterOptions {
    /// The variant.
    pub variant: Variant,
    /// WRITEs that are not acknowledged, at most, when the next operation begins: 1 is one operation at a time.
    pub in_flight: usize,
    /// Operations of a transaction, where the variant has batches.
    pub batch: usize,
    /// The cache, where the variant has one.
    pub cache: CacheOptions,
    /// Whether the time of the cache's memory counts.
    pub counts_cache: bool,
    /// Whether a READ behind each append makes it durable before it is acknowledged, where DDIO is off.
    pub is_flushed: bool,
    /// Whether the write lock is taken and released for each transaction.
    pub locks: bool,
    /// Whether the writer waits behind each transaction of the memory log until the back-end has applied it.
    pub awaits_applied: bool,
    /// Whether the writer knows all that it has read and written, without a bound: a cache that also keeps what is
    /// written. Such a writer reads only what others have made.
    pub remembers: bool,
    /// Bytes of a READ, at most. A longer node takes several READs, one after the other.
    pub read_size_max: u64,
}

/// One update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind.
    pub verb: Verb,
    /// The encoded key; empty for stacks and queues.
    pub key: Vec<u8>,
    /// The encoded value.
    pub value: Vec<u8>,
}

impl Change {
    /// The operation that does the change in the structure with this number.
    pub fn operation(&self, structure: u32) -> Operation<'_> {
        Operation {
            token: 0,
            structure,
            verb: self.verb,
            key: &self.key,
            value: &self.value,
        }
    }

    /// Changes of several structures, each with its number, as one group.
    pub fn group(changes: &[(u32, Self)]) -> Group {
        let mut group = Group::default();
        for (structure, change) in changes {
            group.push(&change.operation(*structure));
        }
        group
    }
}

/// Counts of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterCounts {
    /// Of its session.
    pub session: SessionCounts,
    /// Nodes that were in the cache.
    pub hits: u64,
    /// Nodes that were not.
    pub misses: u64,
}

/// The writer of an instance.
pub struct AsymWriter {
    options: WriterOptions,
    pub(super) view: View,
    pub(super) writer: DomainWriter,
    structure: Structure,
    /// Makes local memory durable, in the symmetric setting.
    commit: Option<Commit>,
}

impl AsymWriter {
    /// The writer of a structure that was loaded ([`AsymWriter::load`]). `local`: the memory of the symmetric
    /// setting, and its plan.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn open(
        session: AsymSession,
        options: WriterOptions,
        local: Option<(Rc<dyn PersistentRegion>, Commit)>,
    ) -> Result<Self, PublishedError> {
        let has_cache = matches!(options.variant, Variant::Rc | Variant::Rcb);
        let cache = match has_cache {
            true => Some(cache(&session, options)?),
            false => None,
        };
        let (source, commit) = match local {
            Some((memory, commit)) => (Source::Local(memory), Some(commit)),
            None => (Source::Remote, None),
        };
        let mut view = View::new(session, source, cache);
        view.read_size_max = options.read_size_max;
        let writer = begin(&mut view).await?;
        let structure = writer.roots().structure(STRUCTURE);
        let structure = structure.ok_or(PublishedError::Protocol("nothing is loaded"))?;
        Ok(Self {
            options,
            view,
            writer,
            structure,
            commit,
        })
    }

    /// Makes a structure in the memory of an instance, with these changes done. Costs no time of a network.
    ///
    /// # Errors
    /// [`PublishedError::Full`].
    pub fn load(
        memory: &dyn Region,
        (layout, instance): (AsymLayout, u32),
        description: Description,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<(), PublishedError> {
        let changes = changes.into_iter().map(|change| (STRUCTURE, change));
        Self::load_tables(memory, (layout, instance), &[description], changes)
    }

    /// Counts so far.
    pub fn counts(&self) -> WriterCounts {
        let cache = self.view.cache.as_ref();
        WriterCounts {
            session: self.view.session.counts(),
            hits: cache.map_or(0, |cache| cache.hits),
            misses: cache.map_or(0, |cache| cache.misses),
        }
    }

    /// Does changes that are all known when the first one begins.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn run(&mut self, changes: &[Change]) -> Result<(), PublishedError> {
        if self.options.variant == Variant::Rcb && changes.len() > 1 && !self.options.remembers {
            self.gather(changes).await?;
        }
        for change in changes {
            self.change(change).await?;
        }
        Ok(())
    }

    /// Looks a key up as it is with everything that this writer has done, which is published first.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, PublishedError> {
        self.publish().await?;
        let Some(structure) = self.writer.roots().structure(STRUCTURE) else {
            return Ok(None);
        };
        let Some(find) = structure.find(key) else {
            return Ok(None);
        };
        let found = self.view.drive(find).await?;
        found.map_err(|_| PublishedError::Protocol("a damaged structure"))
    }

    /// Brings the ways to the keys of these changes into the cache.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn warm(&mut self, changes: &[Change]) -> Result<(), PublishedError> {
        match self.view.cache {
            Some(_) => self.gather(changes).await,
            None => Ok(()),
        }
    }

    /// The vector operation: one walk for all keys, one round trip a level. The nodes go into the cache.
    async fn gather(&mut self, changes: &[Change]) -> Result<(), PublishedError> {
        let mut keys: Vec<&[u8]> = changes.iter().map(|change| &*change.key).collect();
        keys.sort_unstable();
        let structure = self.writer.roots().structure(STRUCTURE);
        let structure = structure.unwrap_or(self.structure);
        let walks = keys.into_iter().filter_map(|key| structure.find(key));
        // A walk that meets what changes meanwhile is left to the change itself.
        let _either = self.view.drive(Many::new(walks)).await?;
        Ok(())
    }

    async fn change(&mut self, change: &Change) -> Result<(), PublishedError> {
        self.execute(&change.operation(STRUCTURE)).await
    }

    pub(super) async fn execute(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<(), PublishedError> {
        let staged = match self.stage(operation).await? {
            Err(StageFault::TransactionFull { .. }) => {
                self.publish().await?;
                self.stage(operation).await?
            }
            staged => staged,
        };
        staged.map_err(failed)?;
        let window = self.options.in_flight - 1;
        if self.options.variant == Variant::Rcb {
            let session = &mut self.view.session;
            let (write, _) = session.operation_write(&OperationLog(operation.encode()));
            match self.options.is_flushed {
                true => session.post_flushed(&[write]).await?,
                false => session.post(&[write]).await?,
            }
            session.settle(window).await?;
        }
        let batch = match self.options.variant.has_batches() {
            true => self.options.batch as u64,
            false => 1,
        };
        if self.writer.waiting() >= batch {
            self.publish().await?;
        }
        Ok(())
    }

    async fn stage(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<Result<(), StageFault>, PublishedError> {
        let staging = match self.writer.staging(operation) {
            Ok(staging) => staging,
            Err(fault) => return Ok(Err(fault)),
        };
        let staged = self.view.drive(staging).await?;
        let staged = staged.map_err(|_| PublishedError::Protocol("a damaged structure"))?;
        Ok(staged.map(drop))
    }

    /// Hands everything staged over, in the way of the variant.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn publish(&mut self) -> Result<(), PublishedError> {
        let Some(record) = self.writer.publish() else {
            return Ok(());
        };
        self.writer.note_trimmed(record.end);
        match self.options.remembers {
            true => self
                .writer
                .note_applied(self.writer.log().chain().operation),
            false => self.writer.forget(),
        }
        let entries = entries_of(&self.view.territory, &record);
        if entries.is_empty() {
            return Ok(());
        }
        match self.options.variant {
            Variant::Naive => self.write(entries).await,
            Variant::Symmetric | Variant::SymmetricB => self.keep(entries).await,
            Variant::R | Variant::Rc | Variant::Rcb => self.append(entries).await,
        }
    }

    async fn write(&mut self, entries: Vec<(u64, Vec<u8>)>) -> Result<(), PublishedError> {
        for entry in entries {
            self.view.session.post(&[entry]).await?;
            self.view.session.settle(self.options.in_flight - 1).await?;
        }
        Ok(())
    }

    async fn append(&mut self, entries: Vec<(u64, Vec<u8>)>) -> Result<(), PublishedError> {
        if self.options.locks {
            self.view.session.write_lock(1).await?;
            self.view.session.fetch_tail().await?;
        }
        let mut log = MemoryLog::default();
        for (place, bytes) in &entries {
            log.push(*place, bytes);
        }
        let session = &mut self.view.session;
        let end = session.append_transaction(log, self.options.is_flushed);
        let end = end.await?;
        for (place, bytes) in &entries {
            self.view.note_published(*place, bytes, Some(end));
        }
        if self.options.locks {
            self.view.session.write_unlock().await?;
        }
        if self.options.awaits_applied {
            while self.view.session.learn_applied().await? < end {}
        }
        self.view.session.settle(self.options.in_flight - 1).await
    }

    /// Applies the entries to local memory, and sends the log.
    async fn keep(&mut self, entries: Vec<(u64, Vec<u8>)>) -> Result<(), PublishedError> {
        let Source::Local(memory) = &self.view.source else {
            return Err(PublishedError::Protocol("no local memory"));
        };
        let mut dirty = Vec::with_capacity(entries.len());
        let mut log = MemoryLog::default();
        for (place, bytes) in &entries {
            memory.write(*place, bytes);
            dirty.push(Span::new(*place, bytes.len() as u64).widen(LINE_SIZE as u64));
            log.push(*place, bytes);
        }
        let commit = self.commit.as_ref().expect("the symmetric setting has one");
        drop(commit.persist(&**memory, &dirty).await?);
        self.view.session.append_transaction(log, false).await?;
        Ok(())
    }

    /// Hands everything staged over, and waits until the back-end has applied everything.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn finish(&mut self) -> Result<(), PublishedError> {
        self.publish().await?;
        self.settle().await?;
        let end = self.view.session.tail();
        while self.view.session.learn_applied().await? < end {}
        Ok(())
    }

    /// Waits for everything that is on its way.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn settle(&mut self) -> Result<(), PublishedError> {
        self.view.session.settle(0).await
    }
}

fn cache(session: &AsymSession, options: WriterOptions) -> Result<Cache, PublishedError> {
    let memory = match options.counts_cache {
        true => {
            let device = session.port().device();
            let size = Cache::memory_size(options.cache);
            let region = device.allocate(size, stonecast_fabric::Access::NONE)?;
            Some(device.memory(region))
        }
        false => None,
    };
    Ok(Cache::new(options.cache, memory))
}

/// Reads what a writer has to know: the bits of the slabs, and the table of structures.
async fn begin(view: &mut View) -> Result<DomainWriter, PublishedError> {
    let territory = view.territory.clone();
    let geometry = territory.geometry;
    let bits = |slab: &u64| Span::new(geometry.slab(*slab).offset, geometry.bits_size());
    let mut spans: Vec<Span> = territory.slabs.iter().map(bits).collect();
    spans.push(territory.root);
    let roots = view
        .drive(ReadRoots::new(KEY, DOMAIN, territory.root))
        .await?;
    let roots = roots.map_err(|_| PublishedError::Protocol("a damaged table"))?;
    if let Some((table, size)) = roots.block() {
        spans.push(table.span(size));
    }
    let read = match &view.source {
        Source::Local(memory) => spans
            .iter()
            .map(|span| {
                let mut bytes = vec![0; span.size as usize];
                memory.read(span.offset, &mut bytes);
                bytes
            })
            .collect(),
        Source::Remote => view.session.read(&spans).await?,
    };
    let known: HashMap<Span, Vec<u8>> = spans.into_iter().zip(read).collect();
    let prefix = |span: Span| {
        let mut longer = known
            .iter()
            .filter(|(known, _)| known.offset == span.offset);
        let (_, bytes) = longer.find(|(known, _)| known.size >= span.size)?;
        Some(bytes[..span.size as usize].to_vec())
    };
    let of = (grant(FIRST), &territory);
    let writer = DomainWriter::new(KEY, DOMAIN, of, &mut |span| prefix(span));
    writer.map_err(|_| PublishedError::Protocol("a damaged table"))
}

pub(super) fn grant(lsn: u64) -> Grant {
    let chain = Chain::start(KEY, DOMAIN, 1, lsn, 0);
    Grant {
        tenure: 1,
        area: LogArea {
            offset: 0,
            size: RING,
        },
        start: Mark { position: 0, chain },
    }
}

pub(super) fn failed(fault: StageFault) -> PublishedError {
    match fault {
        StageFault::Execute(stonecast_structures::shapes::ExecuteFault::Space(_)) => {
            PublishedError::Full
        }
        _ => PublishedError::Protocol("an operation that the structure refuses"),
    }
}

/// The changes of a transaction. The bits of slabs stay with the front-end, as in the paper.
fn entries_of(territory: &Territory, record: &Append) -> Vec<(u64, Vec<u8>)> {
    let geometry = territory.geometry;
    let is_bits = |span: Span| {
        let slab = geometry.slab_of(span);
        slab.is_some_and(|slab| span.offset < geometry.slab(slab).offset + geometry.bits_size())
    };
    let entries = all_entries(territory, record);
    let is_kept = |(place, bytes): &(u64, Vec<u8>)| !is_bits(Span::new(*place, bytes.len() as u64));
    entries.into_iter().filter(is_kept).collect()
}

fn all_entries(territory: &Territory, record: &Append) -> Vec<(u64, Vec<u8>)> {
    // The header ends with size, covered operations, kind and zeros.
    let size = u32::from_le_bytes(*record.bytes[36..].first_chunk().expect("a header"));
    let body = &record.bytes[HEADER_SIZE..][..size as usize];
    let entries = territory.check(body).expect("the writer is honest");
    let entries = entries.iter();
    entries
        .map(|entry| (entry.offset, entry.bytes.to_vec()))
        .collect()
}

pub(super) fn apply(memory: &dyn Region, territory: &Territory, record: Option<Append>) {
    let record = record.into_iter();
    for (place, bytes) in record.flat_map(|record| all_entries(territory, &record)) {
        memory.write(place, &bytes);
    }
}
