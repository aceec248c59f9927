//! The geometry of slabs, and the bits at the start of each.

use stonecast_base::Span;

use crate::wire::UNIT_SIZE;

/// Units for which a word has bits.
pub(super) const UNITS_OF_WORD: u64 = 64;

/// The places of a pool's slabs. The size of a slab is a power of two, and its place a multiple of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabGeometry {
    /// Bytes from the start of the pool to the first slab.
    offset: u64,
    /// Bytes of a slab.
    size: u64,
}

impl SlabGeometry {
    /// Slabs of `size` bytes from `offset` on.
    ///
    /// # Panics
    /// Panics if the size is not a power of two of at least 4,096, or if the offset is not a multiple of the size.
    pub fn new(offset: u64, size: u64) -> Self {
        assert!(size.is_power_of_two() && size >= 4096 && offset.is_multiple_of(size));
        Self { offset, size }
    }

    /// Bytes of a slab.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of a slab.
    pub fn slab(&self, number: u64) -> Span {
        Span::new(self.offset + number * self.size, self.size)
    }

    /// The slab that holds all of `span`; `None` if no single slab does.
    pub fn slab_of(&self, span: Span) -> Option<u64> {
        let start = span.offset.checked_sub(self.offset)?;
        let fits = Span::new(start % self.size, span.size).fits(self.size);
        fits.then_some(start / self.size)
    }

    /// Units of a slab.
    pub fn units(&self) -> u64 {
        self.size / UNIT_SIZE
    }

    /// Bytes at the start of a slab that hold its bits.
    pub fn bits_size(&self) -> u64 {
        (self.units() / 8).next_multiple_of(UNIT_SIZE)
    }

    /// Bytes of the largest block of a slab: the bits take a part of the first half.
    pub(super) fn block_size_max(&self) -> u64 {
        self.size / 2
    }

    /// The first unit of the pool that belongs to a slab.
    pub(super) fn first_unit(&self, slab: u64) -> u64 {
        self.slab(slab).offset / UNIT_SIZE
    }

    /// The word that holds the bit of a unit, as bytes from the start of the pool, and the bit in the word. Units are
    /// counted from the start of the pool.
    pub(crate) fn bit(&self, unit: u64) -> (u64, u32) {
        let inside = unit - self.offset / UNIT_SIZE;
        let (slab, unit) = (inside / self.units(), inside % self.units());
        let word = self.slab(slab).offset + unit / UNITS_OF_WORD * 8;
        (word, (unit % UNITS_OF_WORD) as u32)
    }
}
