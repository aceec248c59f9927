//! Pointers to blocks of a pool.

use std::fmt;

use stonecast_base::Span;

/// Bytes of a unit: blocks start at units, and pointers count units.
pub const UNIT_SIZE: u64 = 64;

const GENERATION_BITS: u32 = 24;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// A pointer to a block: the unit where the block starts, and the generation of the block that lies there.
///
/// A unit is used again for other blocks. A reader that follows a pointer compares the generation in the block, and
/// starts again if the generation differs. Unit 0 holds the header of the pool, so the word 0 points nowhere.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(u64);

impl Pointer {
    /// Points nowhere.
    pub const NULL: Self = Self(0);

    /// The block of `generation` at `unit`. Of the generation, the low 24 bits count.
    ///
    /// # Panics
    /// Panics if the unit has more than 40 bits.
    pub const fn new(unit: u64, generation: u64) -> Self {
        assert!(unit < 1 << (64 - GENERATION_BITS));
        Self(unit << GENERATION_BITS | generation & GENERATION_MASK)
    }

    /// The pointer with this word.
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The 8 bytes that stand for the pointer on the medium.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Whether the pointer points nowhere.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The first unit of the block.
    pub const fn unit(self) -> u64 {
        self.0 >> GENERATION_BITS
    }

    /// The low 24 bits of the block's generation.
    pub const fn generation(self) -> u64 {
        self.0 & GENERATION_MASK
    }

    /// Bytes from the start of the pool to the block.
    pub const fn offset(self) -> u64 {
        self.unit() * UNIT_SIZE
    }

    /// Bytes of the largest block that may lie there: blocks lie at multiples of their sizes, which are powers of two.
    pub const fn block_size_max(self) -> u64 {
        match self.unit() {
            0 => 0,
            unit => UNIT_SIZE << unit.trailing_zeros(),
        }
    }

    /// The first `size` bytes of the block.
    pub const fn span(self, size: u64) -> Span {
        Span::new(self.offset(), size)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "unit {} generation {}",
            self.unit(),
            self.generation()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_keeps_its_unit_and_the_low_bits_of_its_generation() {
        let pointer = Pointer::new((1 << 40) - 1, (5 << 24) + 9);
        assert_eq!((pointer.unit(), pointer.generation()), ((1 << 40) - 1, 9));
        assert_eq!(Pointer::from_word(pointer.word()), pointer);
        assert_eq!(Pointer::new(3, 1).span(100), Span::new(192, 100));
        assert_eq!(Pointer::new(12, 1).block_size_max(), 256);
        assert!(Pointer::default().is_null() && !Pointer::new(1, 0).is_null());
    }
}
