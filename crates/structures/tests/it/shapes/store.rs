//! A domain in plain memory, with a writer that stages operations, and transactions that are applied a word at a time.

use std::collections::VecDeque;

use stonecast_base::Span;
use stonecast_media::Region as _;
use stonecast_structures::shapes::{
    Answer, Audit, Description, ExecuteFault, ReadRoots, Roots, Stale, Structure, drive,
};
use stonecast_structures::{
    Chain, DomainWriter, Grant, LogArea, LogKey, Mark, Operation, SlabGeometry, StageFault,
    Territory, Verb,
};

use crate::memory::Memory;

pub const SLAB_SIZE: u64 = 1 << 18;
pub const KEY: LogKey = LogKey(5);
pub const DOMAIN: u32 = 1;
/// The root word lies in front of the slabs.
const ROOT: Span = Span::new(64, 8);
/// The number of the structure that is created first.
pub const FIRST: u32 = 1;

fn geometry() -> SlabGeometry {
    SlabGeometry::new(SLAB_SIZE, SLAB_SIZE)
}

/// A domain and its writer.
pub struct Store {
    pub memory: Memory,
    territory: Territory,
    writer: DomainWriter,
    /// Words that are not applied yet, in order.
    queue: VecDeque<(u64, u64)>,
    /// Words of the queue that each transaction has, and the operations up to its end.
    ends: VecDeque<(usize, usize)>,
    staged: usize,
    /// Operations of which all words are applied, and operations of which a word may be.
    pub applied: usize,
    pub begun: usize,
}

impl Store {
    /// A domain with a few slabs and one structure.
    pub fn new(slabs: u64, description: Description) -> Self {
        let mut store = Self::empty(slabs);
        store.create("first", description);
        store.publish();
        store.apply_all();
        (store.staged, store.applied, store.begun) = (0, 0, 0);
        store
    }

    /// A domain without structures.
    pub fn empty(slabs: u64) -> Self {
        let memory = Memory::steady((slabs + 1) * SLAB_SIZE);
        let territory = Territory {
            root: ROOT,
            geometry: geometry(),
            slabs: (0..slabs).collect(),
        };
        Self {
            writer: writer_of(&memory, &territory, 1),
            memory,
            territory,
            queue: VecDeque::new(),
            ends: VecDeque::new(),
            staged: 0,
            applied: 0,
            begun: 0,
        }
    }

    /// Creates a structure; readers do not see it yet. Returns its number.
    pub fn create(&mut self, name: &str, description: Description) -> u32 {
        let description = description.encode();
        match self.of_domain(Verb::Create, name, &description) {
            Ok(Answer::Created(number)) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Executes an operation of the domain.
    pub fn of_domain(
        &mut self,
        verb: Verb,
        name: &str,
        value: &[u8],
    ) -> Result<Answer, StageFault> {
        self.execute(&Operation {
            token: 0,
            structure: 0,
            verb,
            key: name.as_bytes(),
            value,
        })
    }

    /// Executes an operation on the first structure; readers do not see it yet.
    pub fn stage(&mut self, verb: Verb, key: &[u8], value: &[u8]) -> Result<Answer, StageFault> {
        self.execute(&Operation {
            token: 0,
            structure: FIRST,
            verb,
            key,
            value,
        })
    }

    /// Executes an operation; readers do not see it yet.
    pub fn execute(&mut self, operation: &Operation<'_>) -> Result<Answer, StageFault> {
        let (memory, territory) = (&self.memory, &self.territory);
        let read = &mut |span| read(memory, territory, span);
        let staged = match self.writer.stage(operation, read) {
            Err(StageFault::TransactionFull { .. }) => {
                self.publish();
                let (memory, territory) = (&self.memory, &self.territory);
                let read = &mut |span| self::read(memory, territory, span);
                self.writer.stage(operation, read)?
            }
            staged => staged?,
        };
        self.staged += usize::from(staged.record.is_some());
        Ok(staged.answer)
    }

    /// Executes an operation once more that was executed for the first time behind the operation `since`.
    pub fn execute_again(
        &mut self,
        operation: &Operation<'_>,
        since: u64,
    ) -> Result<Answer, StageFault> {
        let (memory, territory) = (&self.memory, &self.territory);
        let staging = self.writer.staging_again(operation, since)?;
        let staged = drive(staging, |span| read(memory, territory, span));
        let staged = staged.map_err(ExecuteFault::from)??;
        self.staged += usize::from(staged.record.is_some());
        Ok(staged.answer)
    }

    /// The number of the operation that was staged last.
    pub fn operations(&self) -> u64 {
        self.writer.log().chain().operation
    }

    /// Frees old versions if they take more than so many units. Returns the operations that it took.
    pub fn reclaim_beyond(&mut self, units: u64) -> usize {
        let mut operations = 0;
        while self.writer.roots().retired_units() > units {
            self.reclaim();
            operations += 1;
        }
        operations
    }

    /// Frees a part of the old versions and ended structures.
    pub fn reclaim(&mut self) {
        let freed = self.of_domain(Verb::Reclaim, "", &100_u32.to_le_bytes());
        assert!(matches!(freed, Ok(Answer::Freed(_))), "{freed:?}");
    }

    /// Units of old versions, as the writer knows them.
    pub fn writer_units(&self) -> u64 {
        self.writer.roots().retired_units()
    }

    /// The number of the next record.
    pub fn lsn(&self) -> u64 {
        self.writer.log().chain().lsn
    }

    /// Another writer begins with the memory as it is.
    pub fn next_writer(&mut self) {
        self.next_writer_at(self.lsn());
    }

    /// Another writer begins with the memory as it is, and with this number for its first record.
    pub fn next_writer_at(&mut self, lsn: u64) {
        self.writer = writer_of(&self.memory, &self.territory, lsn);
    }

    /// Makes the staged operations a transaction, which waits to be applied.
    pub fn publish(&mut self) {
        let Some(record) = self.writer.publish() else {
            return;
        };
        self.writer.note_trimmed(record.end);
        let size = u32::from_le_bytes(record.bytes[36..40].try_into().expect("a size"));
        let body = &record.bytes[48..][..size as usize];
        let entries = self.territory.check(body).expect("the writer is honest");
        let before = self.queue.len();
        for entry in entries.iter() {
            for (index, word) in entry.bytes.as_chunks::<8>().0.iter().enumerate() {
                let place = entry.offset + index as u64 * 8;
                self.queue.push_back((place, u64::from_le_bytes(*word)));
            }
        }
        self.ends
            .push_back((self.queue.len() - before, self.staged));
    }

    /// Applies the next word, if there is one.
    pub fn apply_word(&mut self) {
        while let Some((0, staged)) = self.ends.front().copied() {
            self.ends.pop_front();
            (self.applied, self.begun) = (staged, staged);
        }
        let Some((left, staged)) = self.ends.front_mut() else {
            return;
        };
        let (place, word) = self.queue.pop_front().expect("the words are counted");
        self.memory.store(place, word);
        *left -= 1;
        self.begun = *staged;
        if *left == 0 {
            self.applied = *staged;
            self.ends.pop_front();
        }
        if self.ends.is_empty() {
            let operation = self.writer.log().chain().operation;
            self.writer.note_applied(operation);
        }
    }

    /// Words that were published and are not applied.
    pub fn words_left(&self) -> usize {
        self.queue.len()
    }

    /// Applies everything that was published.
    pub fn apply_all(&mut self) {
        while !self.ends.is_empty() {
            self.apply_word();
        }
    }

    /// Reads a place as a reader does.
    pub fn read(&self, span: Span) -> Option<Vec<u8>> {
        read(&self.memory, &self.territory, span)
    }

    /// Whether a place lies in one slab of the domain, or is its root word.
    pub fn may_read(&self, span: Span) -> bool {
        self.territory.holds(span)
    }

    /// The reading of the table of structures.
    pub fn read_roots(&self) -> ReadRoots {
        ReadRoots::new(KEY, DOMAIN, ROOT)
    }

    /// The structures as readers find them.
    pub fn roots(&self) -> Result<Roots, Stale> {
        drive(self.read_roots(), |span| self.read(span))
    }

    /// The first structure as readers find it.
    pub fn structure(&self) -> Structure {
        let roots = self.roots().expect("the table is whole");
        roots.structure(FIRST).expect("it was created")
    }

    /// Checks that the first structure holds `items`, and that every unit in use belongs to one block.
    pub fn check(&self, items: Vec<(Vec<u8>, Vec<u8>)>, in_order: bool) {
        let contents = self.structure().contents(&mut |span| self.read(span));
        let mut contents = contents.expect("the structure is whole");
        assert_eq!(contents.length, items.len() as u64);
        if !in_order {
            contents.items.sort();
        }
        assert_eq!(contents.items, items);
        self.check_memory();
    }

    /// Checks that every unit in use belongs to one block. Returns the account.
    pub fn check_memory(&self) -> Audit {
        let roots = self.roots().expect("the table is whole");
        let slabs = self.territory.slabs.iter().copied();
        let audit = Audit::of(&roots, geometry(), slabs, &mut |span| self.read(span));
        let audit = audit.expect("the domain is whole");
        assert!(audit.is_sound(), "{audit:?}");
        audit
    }
}

fn writer_of(memory: &Memory, territory: &Territory, lsn: u64) -> DomainWriter {
    let chain = Chain::start(KEY, DOMAIN, 1, lsn, 0);
    let grant = Grant {
        tenure: 1,
        // Nothing of the log is kept, so it needs no memory.
        area: LogArea {
            offset: 0,
            size: 1 << 30,
        },
        start: Mark { position: 0, chain },
    };
    let read = &mut |span| read(memory, territory, span);
    DomainWriter::new(KEY, DOMAIN, (grant, territory), read).expect("the table is whole")
}

fn read(memory: &Memory, territory: &Territory, span: Span) -> Option<Vec<u8>> {
    if !territory.holds(span) {
        return None;
    }
    let mut bytes = vec![0; span.size.next_multiple_of(8) as usize];
    memory.read(span.offset, &mut bytes);
    bytes.truncate(span.size as usize);
    Some(bytes)
}
