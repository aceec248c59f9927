//! The table of a domain's structures, behind the root word.
//!
//! The table is an immutable block. A change writes a new table, then the root word, so a reader that reads the word has all structures of one
//! moment.

use stonecast_base::{Span, mutant};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::btree::{BTree, Geometry};
use super::hash::HashTable;
use super::item::KEY_SIZE_MAX;
use super::sequence::{Queue, Stack};
use super::structure::Structure;
use super::tag::{TagKey, word_at};
use super::traversal::{Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{LogKey, Pointer};

/// Bytes of the longest name.
pub const NAME_SIZE_MAX: usize = 64;
/// Structures of a domain, at most. A transaction holds their table.
const COUNT_MAX: u64 = 4096;
/// Bytes before the rows: tag and number of rows.
const HEADER_SIZE: usize = 16;
const ROW_SIZE: usize = size_of::<RowBytes>();
/// The number of the domain among its structures.
const DOMAIN: u32 = 0;

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
}

impl StructureKind {
    const ALL: [Self; 4] = [Self::Stack, Self::Queue, Self::HashTable, Self::BTree];

    fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// What a structure is. It never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The kind.
    pub kind: StructureKind,
    /// Bytes of the longest encoded key; 0 for structures without keys.
    pub key_size_max: u16,
    /// Bytes of a usual value.
    pub value_size: u32,
    /// Names the types of keys and values.
    pub schema: u64,
}

/// The reason why a structure is not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateFault {
    /// The name is empty or too long.
    #[error("a name of {0} bytes, expected 1 to {NAME_SIZE_MAX}")]
    Name(usize),
    /// Another structure has the name.
    #[error("a structure of the domain has the name {0:?}")]
    Taken(String),
    /// The description is none.
    #[error("no kind of structure, or a key of a size that no key has")]
    Description,
    /// The domain has as many structures as it may have.
    #[error("the domain has {COUNT_MAX} structures")]
    Count,
    /// There is no room.
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
        let has_keys = matches!(kind, StructureKind::HashTable | StructureKind::BTree);
        let key_size_max = bytes.key_size.get();
        let is_size = match has_keys {
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

    /// Bytes of a usual item.
    fn item_hint(&self) -> usize {
        // A value that is called long is not read with its first read.
        let value_size = (self.value_size as usize).min(4096);
        super::ITEM_HEADER_SIZE + usize::from(self.key_size_max) + value_size
    }

    fn structure(&self, anchor: Pointer, tags: TagKey) -> Structure {
        let hint = self.item_hint();
        match self.kind {
            StructureKind::Stack => Structure::Stack(Stack::new(anchor, tags, hint)),
            StructureKind::Queue => Structure::Queue(Queue::new(anchor, tags, hint)),
            StructureKind::HashTable => Structure::HashTable(HashTable::new(anchor, tags, hint)),
            StructureKind::BTree => Structure::BTree(BTree::new(anchor, tags, self.geometry())),
        }
    }
}

/// A structure of a domain, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The number of the structure in its domain, from 1. It is never given to another one.
    pub number: u32,
    /// The name.
    pub name: String,
    /// What it is.
    pub description: Description,
    anchor: Pointer,
}

/// The structures of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    key: LogKey,
    domain: u32,
    /// The root word.
    word: Span,
    table: Pointer,
    rows: Vec<Named>,
}

fn table_size(rows: usize) -> u64 {
    (HEADER_SIZE + rows * ROW_SIZE) as u64
}

impl Roots {
    /// The structures, by number.
    pub fn rows(&self) -> &[Named] {
        &self.rows
    }

    /// The block of the table, with its size; none in a domain in which nothing was ever created.
    pub fn block(&self) -> Option<(Pointer, u64)> {
        let size = table_size(self.rows.len());
        (!self.table.is_null()).then_some((self.table, size))
    }

    /// The structure with this number.
    pub fn structure(&self, number: u32) -> Option<Structure> {
        let row = self.rows.iter().find(|row| row.number == number)?;
        let tags = TagKey::of(self.key, self.domain, number);
        Some(row.description.structure(row.anchor, tags))
    }

    /// Creates a structure. Returns its number, and the structures with it.
    ///
    /// # Errors
    /// [`CreateFault`]: the draft has to be dropped.
    pub fn create(
        &self,
        draft: &mut Draft<'_>,
        name: &str,
        description: Description,
    ) -> Result<(u32, Self), CreateFault> {
        if name.is_empty() || name.len() > NAME_SIZE_MAX {
            return Err(CreateFault::Name(name.len()));
        }
        if self.rows.iter().any(|row| row.name == name) {
            return Err(CreateFault::Taken(name.to_owned()));
        }
        if self.rows.len() as u64 == COUNT_MAX {
            return Err(CreateFault::Count);
        }
        let number = self.rows.last().map_or(DOMAIN, |row| row.number) + 1;
        let tags = TagKey::of(self.key, self.domain, number);
        let anchor = match description.kind {
            StructureKind::Stack => Stack::create(draft, tags)?,
            StructureKind::Queue => Queue::create(draft, tags)?,
            StructureKind::HashTable => HashTable::create(draft, tags)?,
            StructureKind::BTree => BTree::create(draft, tags, description.geometry())?,
        };
        let mut rows = self.rows.clone();
        rows.push(Named {
            number,
            name: name.to_owned(),
            description,
            anchor,
        });
        let table = self.replace(draft, &rows)?;
        Ok((
            number,
            Self {
                table,
                rows,
                ..*self
            },
        ))
    }

    /// Writes a new table, then the root word.
    fn replace(&self, draft: &mut Draft<'_>, rows: &[Named]) -> Result<Pointer, SpaceFault> {
        let table = draft.allocate(table_size(rows.len()))?;
        let mut bytes = vec![0; HEADER_SIZE];
        bytes[8..16].copy_from_slice(&(rows.len() as u64).to_le_bytes());
        for row in rows {
            let mut name = [0; NAME_SIZE_MAX];
            name[..row.name.len()].copy_from_slice(row.name.as_bytes());
            let row = RowBytes {
                anchor: U64::new(row.anchor.word()),
                description: row.description.bytes(),
                number: U32::new(row.number),
                name_size: U32::new(row.name.len() as u32),
                name,
            };
            bytes.extend_from_slice(row.as_bytes());
        }
        self.tags().seal(table, 0, &mut bytes);
        if mutant!(RootBeforeTable) {
            draft.write_word(self.word.offset, table.word());
        }
        draft.write(table.offset(), &bytes);
        draft.write_word(self.word.offset, table.word());
        if let Some((old, size)) = self.block() {
            draft.free(old, size)?;
        }
        Ok(table)
    }

    fn tags(&self) -> TagKey {
        TagKey::of(self.key, self.domain, DOMAIN)
    }

    fn parse(&mut self, bytes: &[u8]) -> Option<()> {
        let rows = bytes.get(HEADER_SIZE..)?;
        if !self.tags().is_sealed(self.table, 0, bytes) {
            return None;
        }
        for row in rows.chunks_exact(ROW_SIZE) {
            let row = RowBytes::read_from_bytes(row).ok()?;
            let name = row.name.get(..row.name_size.get() as usize)?;
            self.rows.push(Named {
                number: row.number.get(),
                name: str::from_utf8(name).ok()?.to_owned(),
                description: Description::parse(row.description.as_bytes())?,
                anchor: Pointer::from_word(row.anchor.get()),
            });
        }
        Some(())
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
            roots: Roots {
                key,
                domain,
                word,
                table: Pointer::NULL,
                rows: Vec::new(),
            },
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
                Step::Read(vec![Place::last(self.roots.word)])
            }
            Stage::Word => {
                self.roots.table = Pointer::from_word(word_at(&bytes[0], 0));
                if self.roots.table.is_null() {
                    return Step::Done(self.roots.clone());
                }
                self.stage = Stage::Count;
                let head = self.roots.table.span(HEADER_SIZE as u64);
                Step::Read(vec![Place::last(head)])
            }
            Stage::Count => {
                let count = word_at(&bytes[0], 1);
                if count > COUNT_MAX {
                    return self.stale(HEADER_SIZE as u64);
                }
                self.stage = Stage::Table;
                let table = self.roots.table.span(table_size(count as usize));
                Step::Read(vec![Place::last(table)])
            }
            Stage::Table => match self.roots.parse(&bytes[0]) {
                Some(()) => Step::Done(self.roots.clone()),
                None => self.stale(bytes[0].len() as u64),
            },
        }
    }
}
