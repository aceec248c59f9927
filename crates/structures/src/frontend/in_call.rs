//! Reads of a structure in the call, with devices that execute READs in the call.
//!
//! ```text
//!   leaf found ──▶ READ of the place that decides, of the root word, and of the serving word ──▶ both words as before: the answer counts
//! ```
//!
//! The serving word only grows. If the word is the even number that it was at the end of an earlier call, the back-end
//! has served all the time between. One read of the word after the reads of a call therefore proves as much as reads of
//! the word before and after them. The root word is read with it.

use smallvec::SmallVec;
use stonecast_base::{Span, mutant};
use stonecast_fabric::{Placing, ReadInto};

use super::back_end::BackEnd;
use super::cache::PlaceCache;
use super::reader::Reader;
use crate::backend::{PoolGeometry, Territory};
use crate::shapes::btree::{BTree, Page, Seek};
use crate::shapes::{MemoryInCall, Remembered, Structure};

/// The memory of a reader of a structure, kept from call to call.
#[derive(Debug, Default)]
pub(super) struct InCall {
    remembered: Remembered,
    /// The serving word at the end of the latest call.
    served: Option<u64>,
    value: Vec<u8>,
    /// A page that is no longer needed, whose memory the next one takes.
    spare: Page,
    /// Reads that have ended in the call.
    pub answers: u64,
}

impl InCall {
    /// Takes a half of the cache for decoded places, if the device reads the memory of `structure` in the call.
    pub fn of(reader: &mut Reader, structure: &Structure) -> Self {
        let mut in_call = Self::default();
        if structure.is_decoded() && reads_in_call(&reader.back_end) {
            let size = reader.cache.size_max() / 2;
            reader.cache = PlaceCache::new(size);
            in_call.remembered = Remembered::new(structure, size);
        }
        in_call
    }

    /// Forgets the structure if the reader has found another one.
    pub fn clear(&mut self) {
        self.remembered.clear();
    }

    /// The value of an encoded key. The outer `None`: a traversal has to answer.
    pub fn find(
        &mut self,
        reader: &Reader,
        structure: &Structure,
        (table, key): (Table, &[u8]),
    ) -> Option<Option<&[u8]>> {
        let mut memory = Memory::new(reader, table, &mut self.served)?;
        let (remembered, value) = (&mut self.remembered, &mut self.value);
        let found = structure.find_in_call(key, remembered, &mut memory, value)?;
        self.answers += 1;
        Some(found.then_some(&*self.value))
    }

    /// The leaf of a range. `None`: a traversal has to answer.
    pub fn page(
        &mut self,
        reader: &Reader,
        structure: &Structure,
        (table, seek): (Table, &Seek),
    ) -> Option<Page> {
        let tree = tree_of(structure)?;
        let mut memory = Memory::new(reader, table, &mut self.served)?;
        let (nodes, spare) = (&mut self.remembered.nodes, std::mem::take(&mut self.spare));
        let page = tree.page_in_call(seek, nodes, &mut memory, spare)?;
        self.answers += 1;
        Some(page)
    }

    /// Takes a page whose memory is free.
    pub fn reuse(&mut self, page: Page) {
        self.spare = page;
    }
}

/// The table of structures to which a read belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// The table that this value of the root word names.
    Current(Span, u64),
    /// The table of a snapshot: births of nodes show whether the snapshot has them.
    OfSnapshot,
}

fn tree_of(structure: &Structure) -> Option<BTree> {
    match structure {
        Structure::BTree(tree) => Some(*tree),
        Structure::MvBTree(version) => Some(*version.tree()),
        _ => None,
    }
}

fn reads_in_call(back_end: &BackEnd) -> bool {
    back_end.port().device().placing() == Placing::RequesterProcessor
}

/// The memory of a domain, and the two words that make an answer count.
struct Memory<'a> {
    back_end: &'a BackEnd,
    territory: &'a Territory,
    table: Table,
    served: &'a mut Option<u64>,
    /// The serving word before the first read of the call, or earlier.
    before: u64,
}

impl<'a> Memory<'a> {
    fn new(reader: &'a Reader, table: Table, served: &'a mut Option<u64>) -> Option<Self> {
        let back_end = &*reader.back_end;
        if !reads_in_call(back_end) {
            return None;
        }
        let before = match served.take() {
            Some(before) => before,
            None => {
                let mut word = [0; 8];
                let remote = back_end.address_of(PoolGeometry::serving_word());
                let into = &mut word;
                let is_read = back_end.read_now(&mut [ReadInto { remote, into }]);
                is_read.then_some(u64::from_le_bytes(word))?
            }
        };
        let is_serving = before.is_multiple_of(2) || mutant!(ServingWordIgnored);
        is_serving.then_some(Self {
            back_end,
            territory: &reader.territory,
            table,
            served,
            before,
        })
    }

    fn read_of<'b>(&self, span: Span, into: &'b mut [u8]) -> Option<ReadInto<'b>> {
        let remote = self.back_end.address_of(span);
        let is_held = self.territory.holds(span);
        is_held.then_some(ReadInto { remote, into })
    }

    /// Reads a place, if any, and after it the words that make the answer count.
    fn read_and_look(&mut self, place: Option<ReadInto<'_>>) -> Option<()> {
        let (mut root, mut serving) = ([0; 8], [0; 8]);
        let mut reads: SmallVec<[ReadInto<'_>; 3]> = place.into_iter().collect();
        if let Table::Current(word, _) = self.table {
            let remote = self.back_end.address_of(word);
            let into = &mut root;
            reads.push(ReadInto { remote, into });
        }
        let remote = self.back_end.address_of(PoolGeometry::serving_word());
        let into = &mut serving;
        reads.push(ReadInto { remote, into });
        self.back_end.read_now(&mut reads).then_some(())?;
        drop(reads);
        let (root, serving) = (u64::from_le_bytes(root), u64::from_le_bytes(serving));
        let is_same = match self.table {
            Table::Current(_, expected) => root == expected || mutant!(RootWordIgnored),
            Table::OfSnapshot => true,
        };
        let has_served = serving == self.before || mutant!(ServingWordIgnored);
        *self.served = has_served.then_some(serving);
        (is_same && has_served).then_some(())
    }
}

impl MemoryInCall for Memory<'_> {
    fn read(&mut self, span: Span, into: &mut [u8]) -> Option<()> {
        let read = self.read_of(span, into)?;
        self.back_end.read_now(&mut [read]).then_some(())
    }

    fn read_last(&mut self, span: Span, into: &mut [u8]) -> Option<()> {
        let read = self.read_of(span, into)?;
        self.read_and_look(Some(read))
    }

    fn look(&mut self) -> Option<()> {
        self.read_and_look(None)
    }
}
