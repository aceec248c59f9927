//! The table of a domain's structures, behind the root word.
//!
//! The table is an immutable block. A transaction that changes it writes a new table, and the root word at its end, so
//! a reader that reads the word has all structures of one moment. For multi-version structures that is a snapshot:
//! their roots stand in the table.
//!
//! A structure that was dropped or made empty leaves an *ended* row behind, without a name, until all of its blocks are
//! freed ([`super::reclaim`]).

use stonecast_base::Span;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::btree::{BTree, Geometry, MvBTree};
use super::classic::{BinaryTree, Sizes, SkipList};
use super::hash::HashTable;
use super::item::KEY_SIZE_MAX;
use super::retired::RetireChain;
use super::root::Root;
use super::scrap::{Heap, Scrap};
use super::sequence::{Cursor, Queue, Stack};
use super::structure::Structure;
use super::tag::{TagKey, word_at};
use super::traversal::{Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{LogKey, Pointer};

/// Bytes of the longest name.
pub const NAME_SIZE_MAX: usize = 64;
/// The most structures of a domain. A transaction holds their table.
const COUNT_MAX: u64 = 4096;
/// Bytes before the rows.
const HEADER_SIZE: usize = size_of::<HeaderBytes>();
const ROW_SIZE: usize = size_of::<RowBytes>();
/// The state of a row whose structure has ended.
const ENDED: u8 = 1;
/// The number of the domain among its structures.
const DOMAIN: u32 = 0;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    tag: U64,
    rows: U64,
    /// The number of the structure that was created last.
    number: U64,
    lsn: U64,
    results: U64,
    chain_head: U64,
    chain_tail: U64,
    chain_from: U32,
    chain_to: U32,
    chain_units: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DescriptionBytes {
    schema: U64,
    value_size: U32,
    key_size: U16,
    kind: u8,
    reserved: u8,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RowBytes {
    anchor: U64,
    description: DescriptionBytes,
    number: U32,
    name_size: U32,
    name: [u8; NAME_SIZE_MAX],
    length: U64,
    level: U32,
    state: u8,
    reserved: [u8; 3],
}

/// The kind of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StructureKind {
    /// A stack.
    Stack = 1,
    /// A queue.
    Queue = 2,
    /// A hash table.
    HashTable = 3,
    /// A B+tree.
    BTree = 4,
    /// A multi-version B+tree.
    MvBTree = 5,
    /// A skip list.
    SkipList = 6,
    /// A binary search tree.
    Bst = 7,
    /// A multi-version binary search tree.
    MvBst = 8,
    /// The place of a consumer in a queue of another domain, or of the same one.
    Cursor = 9,
}

impl StructureKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Stack,
        Self::Queue,
        Self::HashTable,
        Self::BTree,
        Self::MvBTree,
        Self::SkipList,
        Self::Bst,
        Self::MvBst,
        Self::Cursor,
    ];

    /// Whether structures of this kind have keys.
    pub fn has_keys(self) -> bool {
        !matches!(self, Self::Stack | Self::Queue | Self::Cursor)
    }

    /// Whether a snapshot of the domain holds one state of such a structure for as long as its old versions are kept.
    pub fn is_versioned(self) -> bool {
        matches!(self, Self::MvBTree | Self::MvBst)
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// The description of a structure. It never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The kind.
    pub kind: StructureKind,
    /// Bytes of the longest encoded key; 0 for structures without keys.
    pub key_size_max: u16,
    /// Bytes of a typical value.
    pub value_size: u32,
    /// The names of the types of keys and values.
    pub schema: u64,
}

/// The reason why a structure is not created, renamed, emptied or dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateFault {
    /// The name is empty or too long.
    #[error("a name of {0} bytes, expected 1 to {NAME_SIZE_MAX}")]
    Name(usize),
    /// Another structure has the name.
    #[error("a structure of the domain has the name {0:?}")]
    Taken(String),
    /// No structure has the name.
    #[error("no structure of the domain has the name {0:?}")]
    Unknown(String),
    /// The description is not valid.
    #[error("no kind of structure, or a key of a size that no key has")]
    Description,
    /// The domain has the most structures that it may have.
    #[error("the domain has {COUNT_MAX} structures")]
    Count,
    /// The domain has no room.
    #[error(transparent)]
    Space(#[from] SpaceFault),
}

impl Description {
    fn bytes(&self) -> DescriptionBytes {
        DescriptionBytes {
            schema: U64::new(self.schema),
            value_size: U32::new(self.value_size),
            key_size: U16::new(self.key_size_max),
            kind: self.kind as u8,
            reserved: 0,
        }
    }

    /// The description as the value of an operation.
    pub fn encode(&self) -> Vec<u8> {
        self.bytes().as_bytes().to_vec()
    }

    /// Reads the value of an operation; `None`: it describes nothing.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = DescriptionBytes::read_from_bytes(bytes).ok()?;
        let kind = StructureKind::of(bytes.kind)?;
        let key_size_max = bytes.key_size.get();
        let is_size = match kind.has_keys() {
            true => (1..=KEY_SIZE_MAX).contains(&key_size_max.into()),
            false => key_size_max == 0,
        };
        is_size.then(|| Self {
            kind,
            key_size_max,
            value_size: bytes.value_size.get(),
            schema: bytes.schema.get(),
        })
    }

    fn geometry(&self) -> Geometry {
        Geometry::new(self.key_size_max.into(), self.value_size as usize)
    }

    fn sizes(&self) -> Sizes {
        Sizes::new(self.key_size_max.into(), self.value_size as usize)
    }

    /// All of a structure with this anchor or root; none if nothing is left of it.
    fn scrap(&self, anchor: Pointer, root: Root) -> Option<Scrap> {
        match self.kind {
            StructureKind::MvBTree => Scrap::version(root),
            StructureKind::MvBst => self.sizes().part(root.top),
            _ => Some(Scrap::anchor(anchor)),
        }
    }

    /// Bytes of a typical item.
    fn item_hint(&self) -> usize {
        // A value that is called long is not read with its first read.
        let value_size = (self.value_size as usize).min(4096);
        super::ITEM_HEADER_SIZE + usize::from(self.key_size_max) + value_size
    }

    fn structure(&self, (anchor, root): (Pointer, Root), youngest: u64, tags: TagKey) -> Structure {
        let hint = self.item_hint();
        match self.kind {
            StructureKind::Stack => Structure::Stack(Stack::new(anchor, tags, hint)),
            StructureKind::Queue => Structure::Queue(Queue::new(anchor, tags, hint)),
            StructureKind::Cursor => Structure::Cursor(Cursor::new(anchor, tags)),
            StructureKind::HashTable => Structure::HashTable(HashTable::new(anchor, tags, hint)),
            StructureKind::BTree => Structure::BTree(BTree::new(anchor, tags, self.geometry())),
            StructureKind::MvBTree => {
                let geometry = self.geometry();
                Structure::MvBTree(MvBTree::new(root, youngest, tags, geometry))
            }
            StructureKind::SkipList => {
                Structure::SkipList(SkipList::new(anchor, tags, self.sizes()))
            }
            StructureKind::Bst => {
                Structure::BinaryTree(BinaryTree::new(anchor, tags, self.sizes()))
            }
            StructureKind::MvBst => {
                let tree = BinaryTree::version(root, youngest, tags, self.sizes());
                Structure::BinaryTree(tree)
            }
        }
    }

    /// Makes an empty structure. Returns its anchor, and the root of a multi-version structure.
    fn create(&self, draft: &mut Draft<'_>, tags: TagKey) -> Result<(Pointer, Root), SpaceFault> {
        let anchor = match self.kind {
            StructureKind::Stack => Stack::create(draft, tags)?,
            StructureKind::Queue => Queue::create(draft, tags)?,
            StructureKind::Cursor => Cursor::create(draft, tags)?,
            StructureKind::HashTable => HashTable::create(draft, tags)?,
            StructureKind::BTree => BTree::create(draft, tags, self.geometry())?,
            StructureKind::MvBTree => {
                let root = MvBTree::create(draft, tags, self.geometry())?;
                return Ok((Pointer::NULL, root));
            }
            StructureKind::SkipList => SkipList::create(draft, tags, self.sizes())?,
            StructureKind::Bst => BinaryTree::create(draft, tags)?,
            // An empty version has no node.
            StructureKind::MvBst => Pointer::NULL,
        };
        Ok((anchor, Root::default()))
    }
}

/// A structure of a domain, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The number of the structure in its domain, from 1. The number is never used for another structure.
    pub number: u32,
    /// The name.
    pub name: String,
    /// The description.
    pub description: Description,
    anchor: Pointer,
    /// The root of a multi-version structure.
    root: Root,
}

/// A structure that has ended, and its remaining blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndedRow {
    pub row: Named,
    pub heap: Heap,
}

/// The structures of a domain, and everything else behind the root word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    key: LogKey,
    domain: u32,
    /// The root word.
    word: Span,
    table: Pointer,
    rows: Vec<Named>,
    pub(super) ended: Vec<EndedRow>,
    /// The number of the structure that was created last.
    number: u32,
    /// The record whose operation has changed the table last: no block of the versions is younger.
    lsn: u64,
    /// The table of results.
    results: Pointer,
    pub(super) chain: RetireChain,
}

impl Roots {
    fn new(key: LogKey, domain: u32, word: Span) -> Self {
        Self {
            key,
            domain,
            word,
            table: Pointer::NULL,
            rows: Vec::new(),
            ended: Vec::new(),
            number: DOMAIN,
            lsn: 0,
            results: Pointer::NULL,
            chain: RetireChain::default(),
        }
    }

    /// The structures, by number.
    pub fn rows(&self) -> &[Named] {
        &self.rows
    }

    /// The structure with this name.
    pub fn named(&self, name: &str) -> Option<&Named> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The word that changes with the structures, and its content.
    pub fn word(&self) -> (Span, u64) {
        (self.word, self.table.word())
    }

    fn table_size(&self) -> u64 {
        (HEADER_SIZE + (self.rows.len() + self.ended.len()) * ROW_SIZE) as u64
    }

    /// The block of the table, with its size; none in a domain in which nothing was ever created.
    pub fn block(&self) -> Option<(Pointer, u64)> {
        (!self.table.is_null()).then_some((self.table, self.table_size()))
    }

    /// The structure with this number.
    pub fn structure(&self, number: u32) -> Option<Structure> {
        let row = self.rows.iter().find(|row| row.number == number)?;
        Some(self.structure_of(row))
    }

    pub(super) fn structure_of(&self, row: &Named) -> Structure {
        let tags = TagKey::of(self.key, self.domain, row.number);
        row.description
            .structure((row.anchor, row.root), self.lsn, tags)
    }

    fn row_mut(&mut self, name: &str) -> Result<&mut Named, CreateFault> {
        let row = self.rows.iter_mut().find(|row| row.name == name);
        row.ok_or_else(|| CreateFault::Unknown(name.to_owned()))
    }

    /// Creates a structure. Returns its number.
    pub(crate) fn create(
        &mut self,
        draft: &mut Draft<'_>,
        name: &str,
        description: Description,
    ) -> Result<u32, CreateFault> {
        self.check_name(name)?;
        if (self.rows.len() + self.ended.len()) as u64 == COUNT_MAX {
            return Err(CreateFault::Count);
        }
        let row = self.new_row(draft, name.to_owned(), description)?;
        self.rows.push(row);
        Ok(self.number)
    }

    fn check_name(&self, name: &str) -> Result<(), CreateFault> {
        if name.is_empty() || name.len() > NAME_SIZE_MAX {
            return Err(CreateFault::Name(name.len()));
        }
        match self.named(name) {
            Some(_) => Err(CreateFault::Taken(name.to_owned())),
            None => Ok(()),
        }
    }

    fn new_row(
        &mut self,
        draft: &mut Draft<'_>,
        name: String,
        description: Description,
    ) -> Result<Named, CreateFault> {
        let number = self.number.checked_add(1).ok_or(CreateFault::Count)?;
        let tags = TagKey::of(self.key, self.domain, number);
        let (anchor, root) = description.create(draft, tags)?;
        self.number = number;
        Ok(Named {
            number,
            name,
            description,
            anchor,
            root,
        })
    }

    /// Gives a structure another name.
    pub(crate) fn rename(&mut self, name: &str, new: &str) -> Result<(), CreateFault> {
        self.row_mut(name)?;
        self.check_name(new)?;
        self.row_mut(name)?.name = new.to_owned();
        Ok(())
    }

    /// Replaces a structure by an empty one. Returns the number of the new structure. Readers of the old structure
    /// notice by the root word.
    pub(crate) fn clear(&mut self, draft: &mut Draft<'_>, name: &str) -> Result<u32, CreateFault> {
        let description = self.row_mut(name)?.description;
        self.end(draft, name)?;
        let row = self.new_row(draft, name.to_owned(), description)?;
        self.rows.push(row);
        Ok(self.number)
    }

    /// Ends a structure. Its blocks are freed later, a few at a time.
    pub(crate) fn end(&mut self, draft: &mut Draft<'_>, name: &str) -> Result<(), CreateFault> {
        let row = self.row_mut(name)?.clone();
        self.rows.retain(|other| other.number != row.number);
        let first = row.description.scrap(row.anchor, row.root);
        // An empty multi-version structure has no block.
        let Some(first) = first else { return Ok(()) };
        let mut heap = Heap::default();
        heap.push(draft, first)?;
        self.ended.push(EndedRow { row, heap });
        Ok(())
    }

    /// Begins the changes of an operation.
    pub(crate) fn begin(&mut self, draft: &Draft<'_>) {
        self.lsn = draft.lsn();
    }

    /// Notes the root of a multi-version structure.
    ///
    /// # Panics
    /// Panics if the structure does not exist.
    pub(crate) fn set_root(&mut self, number: u32, root: Root) {
        let row = self.rows.iter_mut().find(|row| row.number == number);
        row.expect("the structure was changed").root = root;
    }

    /// Blocks of old versions that wait to be freed, in units.
    pub fn retired_units(&self) -> u64 {
        self.chain.units
    }

    /// Whether blocks of ended structures wait to be freed.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Writes a new table, and at the end of the transaction the root word.
    pub(crate) fn write(&mut self, draft: &mut Draft<'_>, old: &Self) -> Result<(), SpaceFault> {
        for block in draft.take_retired() {
            self.chain.push(draft, block)?;
        }
        let (size, old_size) = (self.table_size(), old.table_size());
        let fits = size.next_power_of_two() == old_size.next_power_of_two();
        // No reader has seen a table of the open transaction.
        if old.table.is_null() || !draft.is_fresh(old.table) || !fits {
            self.table = draft.allocate(size)?;
            if let Some((old, size)) = old.block() {
                draft.free(old, size)?;
            }
        }
        draft.write(self.table.offset(), &self.bytes());
        draft.write_last(self.word.offset, self.table.word());
        Ok(())
    }

    fn bytes(&self) -> Vec<u8> {
        let chain = &self.chain;
        let header = HeaderBytes {
            tag: U64::ZERO,
            rows: U64::new((self.rows.len() + self.ended.len()) as u64),
            number: U64::new(self.number.into()),
            lsn: U64::new(self.lsn),
            results: U64::new(self.results.word()),
            chain_head: U64::new(chain.head.word()),
            chain_tail: U64::new(chain.tail.word()),
            chain_from: U32::new(chain.from),
            chain_to: U32::new(chain.to),
            chain_units: U64::new(chain.units),
        };
        let mut bytes = header.as_bytes().to_vec();
        for row in &self.rows {
            bytes.extend_from_slice(row.bytes(0).as_bytes());
        }
        for EndedRow { row, heap } in &self.ended {
            let mut row = row.bytes(ENDED);
            row.anchor = U64::new(heap.chunk.word());
            row.length = U64::new(heap.count.into());
            bytes.extend_from_slice(row.as_bytes());
        }
        self.tags().seal(self.table, 0, &mut bytes);
        bytes
    }

    /// The block of the table of results, and the seed of its tags.
    pub(crate) fn results(&self) -> (Pointer, TagKey) {
        (self.results, self.tags())
    }

    /// Notes that the domain has a table of results.
    pub(crate) fn set_results(&mut self, block: Pointer) {
        self.results = block;
    }

    fn tags(&self) -> TagKey {
        TagKey::of(self.key, self.domain, DOMAIN)
    }

    fn parse(&mut self, bytes: &[u8]) -> Option<()> {
        if !self.tags().is_sealed(self.table, 0, bytes) {
            return None;
        }
        let (header, rows) = HeaderBytes::read_from_prefix(bytes).ok()?;
        self.number = header.number.get().try_into().ok()?;
        self.lsn = header.lsn.get();
        self.results = Pointer::from_word(header.results.get());
        self.chain = RetireChain {
            head: Pointer::from_word(header.chain_head.get()),
            tail: Pointer::from_word(header.chain_tail.get()),
            from: header.chain_from.get(),
            to: header.chain_to.get(),
            units: header.chain_units.get(),
        };
        for row in rows.chunks_exact(ROW_SIZE) {
            let bytes = RowBytes::read_from_bytes(row).ok()?;
            let row = Named::parse(&bytes)?;
            match bytes.state {
                ENDED => {
                    let heap = Heap {
                        chunk: row.anchor,
                        count: row.root.length.try_into().ok()?,
                    };
                    self.ended.push(EndedRow { row, heap });
                }
                _ => self.rows.push(row),
            }
        }
        Some(())
    }
}

impl Named {
    fn bytes(&self, state: u8) -> RowBytes {
        let mut name = [0; NAME_SIZE_MAX];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        RowBytes {
            anchor: U64::new(match self.description.kind.is_versioned() {
                true => self.root.top.word(),
                false => self.anchor.word(),
            }),
            description: self.description.bytes(),
            number: U32::new(self.number),
            name_size: U32::new(self.name.len() as u32),
            name,
            length: U64::new(self.root.length),
            level: U32::new(self.root.level),
            state,
            reserved: [0; 3],
        }
    }

    fn parse(bytes: &RowBytes) -> Option<Self> {
        let name = bytes.name.get(..bytes.name_size.get() as usize)?;
        let anchor = Pointer::from_word(bytes.anchor.get());
        Some(Self {
            number: bytes.number.get(),
            name: str::from_utf8(name).ok()?.to_owned(),
            description: Description::parse(bytes.description.as_bytes())?,
            anchor,
            root: Root {
                top: anchor,
                level: bytes.level.get(),
                length: bytes.length.get(),
            },
        })
    }
}

/// The reading of the table: root word, number of rows, rows.
#[derive(Clone, Debug)]
pub struct ReadRoots {
    roots: Roots,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Begin,
    Word,
    Count,
    Table,
}

impl ReadRoots {
    /// Reads the structures of a domain with this root word.
    pub fn new(key: LogKey, domain: u32, word: Span) -> Self {
        Self {
            roots: Roots::new(key, domain, word),
            stage: Stage::Begin,
        }
    }

    fn stale(&self, size: u64) -> Step<Roots> {
        Step::Stale(Stale {
            place: self.roots.table.span(size),
            what: "table of structures",
        })
    }
}

impl Traversal for ReadRoots {
    type End = Roots;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Roots> {
        match self.stage {
            Stage::Begin => {
                self.stage = Stage::Word;
                Step::one(Place::last(self.roots.word))
            }
            Stage::Word => {
                self.roots.table = Pointer::from_word(word_at(&bytes[0], 0));
                if self.roots.table.is_null() {
                    return Step::Done(self.roots.clone());
                }
                self.stage = Stage::Count;
                let head = self.roots.table.span(HEADER_SIZE as u64);
                Step::one(Place::last(head))
            }
            Stage::Count => {
                let count = word_at(&bytes[0], 1);
                if count > COUNT_MAX {
                    return self.stale(HEADER_SIZE as u64);
                }
                self.stage = Stage::Table;
                let size = HEADER_SIZE + count as usize * ROW_SIZE;
                let table = self.roots.table.span(size as u64);
                Step::one(Place::last(table))
            }
            Stage::Table => match self.roots.parse(&bytes[0]) {
                Some(()) => Step::Done(self.roots.clone()),
                None => self.stale(bytes[0].len() as u64),
            },
        }
    }
}
