//! Parts of a mapping that are read very often, so that their addresses are computed once.
//!
//! ```text
//!   mapping   |.............|<--- size bytes: a piece --->|.....|word|......|
//!                           ^ address                           ^ address
//! ```
//!
//! Invariant: a part that lies inside a mapping lies there as long as the mapping is held, because a mapping neither
//! moves nor shrinks. So an access is checked against the size of the piece and nothing else.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use stonecast_base::Span;

use crate::copy::copy_out;
use crate::mapped_region::prefetch_lines;
use crate::{MappedRegion, Region};

/// Some bytes of a mapping, for reading.
#[derive(Clone, Debug)]
pub struct MappedPiece {
    mapping: Rc<MappedRegion>,
    span: Span,
    address: *const u8,
}

impl MappedPiece {
    /// The bytes of `span`; `None` unless all of them are in the mapping.
    pub fn new(mapping: Rc<MappedRegion>, span: Span) -> Option<Self> {
        if !span.fits(mapping.size()) {
            return None;
        }
        let address = mapping.address(span.offset, span.size);
        Some(Self {
            mapping,
            span,
            address,
        })
    }

    /// The mapping.
    pub fn mapping(&self) -> &Rc<MappedRegion> {
        &self.mapping
    }

    /// Offset of the piece in the mapping.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Copies out `into.len()` bytes from `offset` of the piece, like [`Region::read`]. `false`: the bytes are not all
    /// in the piece, and none were copied.
    #[inline(always)]
    #[must_use]
    pub fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.address_of(offset, into.len()) else {
            return false;
        };
        // SAFETY: `offset` and the length of `into` together are at most the piece's size (`address_of` compares them,
        // without overflow), whose bytes `new` found in the mapping, which is held, consists of whole pages and so of
        // whole words, and is readable; `into` is borrowed exclusively, so it is no part of a mapping that is shared.
        unsafe { copy_out(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Prefetches `size` bytes from `offset` of the piece. `false`: the bytes are not all in the piece, and none were
    /// prefetched.
    #[inline(always)]
    #[must_use]
    pub fn prefetch(&self, offset: u64, size: usize) -> bool {
        self.address_of(offset, size)
            .map(|start| prefetch_lines(start, size))
            .is_some()
    }

    /// The address of `size` bytes at `offset`; `None` unless all of them are in the piece.
    #[inline(always)]
    fn address_of(&self, offset: u64, size: usize) -> Option<*const u8> {
        // Two branches that are never taken cost fewer instructions than joining the conditions.
        let last = self.span.size.checked_sub(size as u64)?;
        if offset > last {
            return None;
        }
        Some(self.address.wrapping_add(offset as usize))
    }
}

/// A word of a mapping, for reading.
#[derive(Clone, Debug)]
pub struct MappedWord {
    /// Keeps the memory of `address` mapped.
    _mapping: Rc<MappedRegion>,
    address: *mut u64,
}

impl MappedWord {
    /// The aligned word at `offset`, which must be inside.
    pub fn new(mapping: Rc<MappedRegion>, offset: u64) -> Self {
        let address = mapping
            .address(offset, size_of::<u64>() as u64)
            .cast::<u64>();
        assert!(
            address.is_aligned(),
            "offset {offset} is not aligned to 8 bytes"
        );
        Self {
            _mapping: mapping,
            address,
        }
    }

    /// Loads the word, like [`Region::load`].
    #[inline]
    pub fn load(&self) -> u64 {
        // SAFETY: `new` found that 8 aligned bytes are inside the mapping, which is held as long as `self`, longer than
        // the reference that is made here. Others change the bytes only by single aligned accesses, and an atomic is
        // made for memory that changes under its reader. The mapping may be for reading alone: of such memory atomics
        // promise relaxed loads.
        let word = unsafe { AtomicU64::from_ptr(self.address) };
        let value = word.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sealing;

    const SIZE: u64 = 1000;

    fn memory() -> Rc<MappedRegion> {
        let memory = MappedRegion::create_memory("stonecast-piece", SIZE, Sealing::None).unwrap();
        let bytes: Vec<u8> = (0..SIZE).map(|index| index as u8).collect();
        Region::write(&memory, 0, &bytes);
        Rc::new(memory)
    }

    /// Needs both comparisons of `read`, and the comparison of `new`.
    #[test]
    fn a_piece_gives_its_own_bytes_and_no_others() {
        let memory = memory();
        let piece = MappedPiece::new(memory.clone(), Span::new(100, 64)).unwrap();
        for offset in 0..=70 {
            for size in 0..=70 {
                let mut into = vec![0xaa; size as usize];
                let is_inside = offset + size <= 64;
                assert_eq!(
                    piece.read(offset, &mut into),
                    is_inside,
                    "{size} bytes at {offset}"
                );
                let start = 100 + offset;
                let expected: Vec<u8> = (start..start + size)
                    .map(|index| if is_inside { index as u8 } else { 0xaa })
                    .collect();
                assert_eq!(into, expected, "{size} bytes at {offset}");
            }
        }
        assert!(!piece.read(u64::MAX, &mut [0; 2]));
        for (offset, size) in [(SIZE - 63, 64), (SIZE + 1, 0), (u64::MAX, 2)] {
            assert!(
                MappedPiece::new(memory.clone(), Span::new(offset, size)).is_none(),
                "{size} bytes at {offset}"
            );
        }
        assert!(
            MappedPiece::new(memory, Span::new(SIZE, 0))
                .is_some_and(|piece| piece.read(0, &mut []))
        );
    }

    #[test]
    fn a_word_has_the_value_that_the_mapping_holds_there() {
        let memory = memory();
        let word = MappedWord::new(memory.clone(), 16);
        Region::store(&*memory, 16, 77);
        assert_eq!(word.load(), 77);
        Region::store(&*memory, 16, 78);
        assert_eq!(word.load(), 78);
    }

    #[test]
    #[should_panic(expected = "are not in a region")]
    fn a_word_outside_is_refused() {
        MappedWord::new(memory(), SIZE);
    }

    #[test]
    #[should_panic(expected = "not aligned")]
    fn a_word_that_is_not_aligned_is_refused() {
        MappedWord::new(memory(), 12);
    }
}
