//! One structure in plain memory, with a writer that stages operations, and transactions that are applied a word at a time.

use std::collections::VecDeque;

use stonecast_base::Span;
use stonecast_media::Region as _;
use stonecast_structures::shapes::{Answer, ExecuteFault, Structure, TagKey};
use stonecast_structures::{
    Allocator, Draft, LogKey, Operation, Pointer, SlabGeometry, SpaceFault, Verb, Workspace,
};

use crate::memory::Memory;

pub const SLAB_SIZE: u64 = 1 << 18;

pub fn tags() -> TagKey {
    TagKey::of(LogKey(5), 1, 7)
}

fn geometry() -> SlabGeometry {
    SlabGeometry::new(SLAB_SIZE, SLAB_SIZE)
}

/// A structure and its writer.
pub struct Store {
    pub memory: Memory,
    pub structure: Structure,
    slabs: u64,
    workspace: Workspace,
    lsn: u64,
    /// Words that are not applied yet, in order; the last word of an operation with the number of operations up to it.
    queue: VecDeque<(u64, u64)>,
    /// Words of the queue that each transaction has, and the operations up to its end.
    ends: VecDeque<(usize, usize)>,
    staged: usize,
    /// Operations of which all words are applied, and operations of which a word may be.
    pub applied: usize,
    pub begun: usize,
}

impl Store {
    /// An empty structure with a few slabs.
    pub fn new(
        slabs: u64,
        create: impl FnOnce(&mut Draft<'_>) -> Result<Structure, SpaceFault>,
    ) -> Self {
        let memory = Memory::steady((slabs + 1) * SLAB_SIZE);
        let mut workspace = Workspace::new(allocator(&memory, slabs));
        let mut draft = workspace.draft(1);
        let structure = create(&mut draft).expect("there is room");
        draft.commit();
        let mut store = Self {
            memory,
            structure,
            slabs,
            workspace,
            lsn: 1,
            queue: VecDeque::new(),
            ends: VecDeque::new(),
            staged: 0,
            applied: 0,
            begun: 0,
        };
        store.publish();
        store.apply_all();
        store
    }

    /// Executes an operation; readers do not see it yet.
    pub fn stage(&mut self, verb: Verb, key: &[u8], value: &[u8]) -> Result<Answer, ExecuteFault> {
        self.lsn += 1;
        let operation = Operation {
            token: 0,
            structure: 7,
            verb,
            key,
            value,
        };
        let memory = &self.memory;
        let workspace = (&mut self.workspace, self.lsn);
        let slabs = self.slabs;
        let mut view = |span| may_read(slabs, span).then(|| read(memory, span))?;
        let (answer, draft) = self.structure.execute(&operation, workspace, &mut view)?;
        draft.commit();
        self.staged += 1;
        Ok(answer)
    }

    /// Begins again with what is in memory.
    pub fn forget_staged(&mut self) {
        self.workspace = Workspace::new(allocator(&self.memory, self.slabs));
    }

    /// Makes the staged operations a transaction, which waits to be applied.
    pub fn publish(&mut self) {
        let before = self.queue.len();
        for entry in self.workspace.close().iter() {
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
        if self.ends.is_empty() && self.workspace.open_size() == 0 {
            self.workspace.note_applied();
        }
    }

    /// Applies everything that was published.
    pub fn apply_all(&mut self) {
        while !self.ends.is_empty() {
            self.apply_word();
        }
    }

    /// Reads a place as a reader does.
    pub fn read(&self, span: Span) -> Option<Vec<u8>> {
        self.may_read(span).then(|| read(&self.memory, span))?
    }

    /// Whether a place lies in one slab of the domain.
    pub fn may_read(&self, span: Span) -> bool {
        may_read(self.slabs, span)
    }

    /// Checks that the structure holds `items`, and that every unit in use belongs to one of its blocks.
    pub fn check(&self, items: Vec<(Vec<u8>, Vec<u8>)>, in_order: bool) {
        let mut contents = self
            .structure
            .contents(&mut |span| self.read(span))
            .expect("the structure is whole");
        assert_eq!(contents.length, items.len() as u64);
        if !in_order {
            contents.items.sort();
        }
        assert_eq!(contents.items, items);
        let mut blocks: Vec<(Pointer, u64)> = contents.blocks;
        blocks.sort();
        for pair in blocks.windows(2) {
            let end = pair[0].0.offset() + pair[0].1;
            assert!(end <= pair[1].0.offset(), "{pair:?} overlap");
        }
        let used: u64 = blocks.iter().map(|(_, size)| units_of(*size)).sum();
        let bits = self.slabs * geometry().bits_size() / 64;
        let free = allocator(&self.memory, self.slabs).free_units();
        assert_eq!(
            used + free + bits,
            self.slabs * geometry().units(),
            "units are lost, or used and free"
        );
        assert_eq!(free, self.workspace.allocator().free_units());
    }
}

fn may_read(slabs: u64, span: Span) -> bool {
    let slab = geometry().slab_of(span);
    slab.is_some_and(|slab| slab < slabs)
}

fn units_of(size: u64) -> u64 {
    size.div_ceil(64).next_power_of_two()
}

/// The allocator that the bits in memory give.
fn allocator(memory: &Memory, slabs: u64) -> Allocator {
    let mut allocator = Allocator::new(geometry());
    for slab in 0..slabs {
        let mut bits = vec![0; geometry().bits_size() as usize];
        memory.read(geometry().slab(slab).offset, &mut bits);
        allocator.add_slab(slab, &bits);
    }
    allocator
}

fn read(memory: &Memory, span: Span) -> Option<Vec<u8>> {
    let mut bytes = vec![0; span.size.next_multiple_of(8) as usize];
    memory.read(span.offset, &mut bytes);
    bytes.truncate(span.size as usize);
    Some(bytes)
}
