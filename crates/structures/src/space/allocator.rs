//! Blocks of a domain's slabs, as its writer gives them out: a buddy allocator over the bits of the slabs.
//!
//! A block takes a power of two of units, aligned to its size. The allocator takes the first of the smallest runs that
//! are large enough; the rest of the run stays free in halves. A run is cut only if no smaller run suffices, so the
//! order of requests does not decide whether all of them fit.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_base::{Span, mutant};

use super::slab::{SlabGeometry, UNITS_OF_WORD};
use crate::wire::{Pointer, UNIT_SIZE};

/// The power of two of [`UNITS_OF_WORD`].
const WORD_ORDER: u32 = UNITS_OF_WORD.trailing_zeros();

/// The reason why an operation cannot be executed in the slabs of its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceFault {
    /// No free run is large enough.
    #[error("no block of {size} bytes is free in the slabs of the domain")]
    NoSpace {
        /// Requested bytes.
        size: u64,
    },
    /// No slab of the pool holds such a block.
    #[error("a block of {size} bytes, and the largest in a slab has {size_max}")]
    Long {
        /// Requested bytes.
        size: u64,
        /// Bytes of the largest block.
        size_max: u64,
    },
    /// A structure names a block that was never taken: the structure is damaged.
    #[error("{pointer:?}, of {size} bytes, is not in use")]
    NotTaken {
        /// The pointer.
        pointer: Pointer,
        /// Bytes of the block.
        size: u64,
    },
}

/// A block: its first unit, and the power of two of its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Block {
    pub order: u32,
    pub unit: u64,
}

impl Block {
    /// Units of the block.
    pub fn units(&self) -> u64 {
        1 << self.order
    }
}

/// The power of two of the units of a block for `size` bytes.
pub(crate) fn order_of(size: u64) -> u32 {
    size.div_ceil(UNIT_SIZE)
        .next_power_of_two()
        .trailing_zeros()
}

/// The free blocks of a domain. Volatile: it is made of the bits on the medium.
#[derive(Clone, Debug)]
pub struct Allocator {
    geometry: SlabGeometry,
    /// Free runs, the smallest first.
    free: BTreeSet<Block>,
    /// The words of bits of each slab.
    slabs: BTreeMap<u64, Vec<u64>>,
}

impl Allocator {
    /// No slabs.
    pub fn new(geometry: SlabGeometry) -> Self {
        Self {
            geometry,
            free: BTreeSet::new(),
            slabs: BTreeMap::new(),
        }
    }

    /// Adds a slab with the bits that stand at its start.
    ///
    /// # Panics
    /// Panics if the size of `bits` is not [`SlabGeometry::bits_size`].
    pub fn add_slab(&mut self, slab: u64, bits: &[u8]) {
        assert_eq!(bits.len() as u64, self.geometry.bits_size());
        let words = bits.as_chunks::<8>().0.iter();
        let mut words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
        self.slabs.insert(slab, words.clone());
        // The units of the bits are never free.
        for unit in 0..self.geometry.bits_size() / UNIT_SIZE {
            words[(unit / UNITS_OF_WORD) as usize] |= 1 << (unit % UNITS_OF_WORD);
        }
        let order = self.geometry.units().trailing_zeros();
        self.add_free_parts(slab, &words, Block { order, unit: 0 });
    }

    /// Adds a slab whose bits are all clear.
    pub fn add_empty_slab(&mut self, slab: u64) {
        let bits = vec![0; self.geometry.bits_size() as usize];
        self.add_slab(slab, &bits);
    }

    /// The place of the slabs.
    pub fn geometry(&self) -> SlabGeometry {
        self.geometry
    }

    /// Units that are free.
    pub fn free_units(&self) -> u64 {
        self.free.iter().map(Block::units).sum()
    }

    /// Adds the free runs inside a block of a slab with these bits. The units of `part` count from the slab's start.
    fn add_free_parts(&mut self, slab: u64, words: &[u64], part: Block) {
        let used = match part.order {
            0..WORD_ORDER => {
                let mask = (1_u64 << part.units()) - 1;
                words[(part.unit / UNITS_OF_WORD) as usize] >> (part.unit % UNITS_OF_WORD) & mask
            }
            _ => {
                let first = (part.unit / UNITS_OF_WORD) as usize;
                let words = &words[first..first + (part.units() / UNITS_OF_WORD) as usize];
                words.iter().fold(0, |all, word| all | word)
            }
        };
        if used == 0 {
            let unit = self.geometry.first_unit(slab) + part.unit;
            self.free.insert(Block { unit, ..part });
        } else if let Some(order) = part.order.checked_sub(1) {
            for unit in [part.unit, part.unit + (1 << order)] {
                self.add_free_parts(slab, words, Block { order, unit });
            }
        }
    }

    /// The word that holds the bit of a unit of the domain's slabs, its place in the pool, and the bit.
    fn word(&mut self, unit: u64) -> (&mut u64, u64, u32) {
        let (place, bit) = self.geometry.bit(unit);
        let slab = self.geometry.slab_of(Span::new(place, 8));
        let slab = slab.expect("a slab holds its bits");
        let index = (place - self.geometry.slab(slab).offset) as usize / 8;
        let words = self.slabs.get_mut(&slab).expect("the slab is the domain's");
        (&mut words[index], place, bit)
    }

    /// Whether all units of a block are in use, in one slab of the domain. For blocks that untrusted bytes name.
    pub(super) fn is_taken(&self, block: Block) -> bool {
        let span = Span::new(block.unit * UNIT_SIZE, block.units() * UNIT_SIZE);
        let slab = self.geometry.slab_of(span);
        let Some((slab, words)) = slab.and_then(|slab| Some((slab, self.slabs.get(&slab)?))) else {
            return false;
        };
        let is_aligned = block.unit.is_multiple_of(block.units());
        let first = block.unit - self.geometry.first_unit(slab);
        let is_block = is_aligned && first >= self.geometry.bits_size() / UNIT_SIZE;
        let is_used =
            |unit: u64| words[(unit / UNITS_OF_WORD) as usize] >> (unit % UNITS_OF_WORD) & 1 == 1;
        is_block && (first..first + block.units()).all(is_used)
    }

    /// Takes a block for `size` bytes. Its bits are set by the transaction that links the block.
    pub(super) fn take(&mut self, size: u64) -> Result<Block, SpaceFault> {
        let size_max = self.geometry.block_size_max();
        if size > size_max {
            return Err(SpaceFault::Long { size, size_max });
        }
        let order = order_of(size);
        let smallest = Block { order, unit: 0 };
        let mut run = *self
            .free
            .range(smallest..)
            .next()
            .ok_or(SpaceFault::NoSpace { size })?;
        self.free.remove(&run);
        while run.order > order {
            run.order -= 1;
            self.free.insert(Block {
                unit: run.unit + run.units(),
                ..run
            });
        }
        Ok(run)
    }

    /// Takes a block back. The block may be taken again at once.
    pub(super) fn give_back(&mut self, block: Block) {
        let mut run = block;
        let slab_order = self.geometry.units().trailing_zeros();
        while run.order < slab_order {
            let buddy = Block {
                unit: run.unit ^ run.units(),
                ..run
            };
            if !self.free.remove(&buddy) {
                break;
            }
            run = Block {
                order: run.order + 1,
                unit: run.unit & !run.units(),
            };
        }
        let is_new = self.free.insert(run);
        assert!(is_new, "{block:?} is given back twice");
    }

    /// Sets or clears the bits of a block. Returns the words that changed, with their places.
    pub(super) fn mark(&mut self, block: Block, is_used: bool) -> Vec<(u64, u64)> {
        let mut changed = Vec::new();
        let (mut unit, end) = (block.unit, block.unit + block.units());
        while unit < end {
            let (word, place, bit) = self.word(unit);
            let count = (end - unit).min(UNITS_OF_WORD - u64::from(bit));
            let bits = (u64::MAX >> (UNITS_OF_WORD - count)) << bit;
            let expected = if is_used { 0 } else { bits };
            assert_eq!(
                *word & bits,
                expected,
                "a unit of {block:?} is used twice or freed twice"
            );
            *word ^= bits;
            if !mutant!(BitsNotInTransaction) {
                changed.push((place, *word));
            }
            unit += count;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use stonecast_base::random_from_seed;

    use super::*;

    fn slabs(count: u64) -> Allocator {
        let geometry = SlabGeometry::new(1 << 16, 1 << 14);
        let mut allocator = Allocator::new(geometry);
        let bits = vec![0; geometry.bits_size() as usize];
        (0..count).for_each(|slab| allocator.add_slab(slab, &bits));
        allocator
    }

    #[test]
    fn a_new_slab_has_all_units_but_those_of_its_bits() {
        let allocator = slabs(2);
        assert_eq!(allocator.free_units(), 2 * (256 - 1));
    }

    /// Needs the splitting of runs, the merging of buddies, and the bits.
    #[test]
    fn blocks_never_overlap_and_all_of_them_come_back() {
        for seed in 0..200 {
            let mut random = random_from_seed(seed);
            let mut allocator = slabs(3);
            let mut taken: Vec<Block> = Vec::new();
            for _ in 0..300 {
                if random.random_range(0..3) > 0 {
                    let size = random.random_range(1..2048);
                    let Ok(block) = allocator.take(size) else {
                        continue;
                    };
                    assert!(block.units() * UNIT_SIZE >= size);
                    assert!(block.unit.is_multiple_of(block.units()));
                    let end = block.unit + block.units();
                    for other in &taken {
                        let apart = other.unit >= end || other.unit + other.units() <= block.unit;
                        assert!(apart, "seed {seed}: {block:?} and {other:?}");
                    }
                    allocator.mark(block, true);
                    taken.push(block);
                } else if !taken.is_empty() {
                    let index = random.random_range(0..taken.len());
                    let block = taken.swap_remove(index);
                    allocator.mark(block, false);
                    allocator.give_back(block);
                }
            }
            // The bits alone give the same free blocks.
            let mut again = Allocator::new(allocator.geometry);
            for slab in 0..3 {
                let words = allocator.slabs[&slab].iter();
                let bits: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
                again.add_slab(slab, &bits);
            }
            assert_eq!(again.free, allocator.free, "seed {seed}");
            for block in taken {
                allocator.mark(block, false);
                allocator.give_back(block);
            }
            assert_eq!(allocator.free, slabs(3).free, "seed {seed}");
        }
    }

    #[test]
    fn a_request_that_fits_nowhere_is_refused_and_takes_nothing() {
        let mut allocator = slabs(1);
        let size_max = 1 << 13;
        let size = size_max + 1;
        let long = SpaceFault::Long { size, size_max };
        assert_eq!(allocator.take(size), Err(long));
        assert_eq!(allocator.free_units(), 255);
        allocator.take(size_max).unwrap();
        let size = size_max;
        assert_eq!(allocator.take(size), Err(SpaceFault::NoSpace { size }));
        assert_eq!(allocator.free_units(), 127);
    }
}
