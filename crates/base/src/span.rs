//! A range of bytes of a region, a file or a pool; the context says which.

/// `size` bytes from `offset`, both in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Bytes from the start of the region, file or pool.
    pub offset: u64,
    /// Length in bytes.
    pub size: u64,
}

impl Span {
    /// `size` bytes from `offset`.
    #[inline]
    pub const fn new(offset: u64, size: u64) -> Self {
        Self { offset, size }
    }

    /// The offset one past the last byte; `None` if the sum exceeds 64 bits, which only untrusted bytes can cause.
    #[inline]
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }

    /// Whether the whole span lies in `0..limit`.
    #[inline]
    pub const fn fits(self, limit: u64) -> bool {
        match self.end() {
            Some(end) => end <= limit,
            None => false,
        }
    }

    /// The bytes that are in both spans, if any. Neither span may exceed 64 bits.
    pub const fn overlap(self, other: Self) -> Option<Self> {
        let (first, second) = if self.offset <= other.offset {
            (self, other)
        } else {
            (other, self)
        };
        let shared = (first.offset + first.size).saturating_sub(second.offset);
        let size = if shared < second.size {
            shared
        } else {
            second.size
        };
        if size == 0 {
            return None;
        }
        Some(Self::new(second.offset, size))
    }

    /// The smallest span of whole `grain`-byte units that contains this one. `grain` is a power of
    /// two.
    #[inline]
    pub const fn widen(self, grain: u64) -> Self {
        assert!(grain.is_power_of_two());
        let start = self.offset & !(grain - 1);
        let end = (self.offset + self.size + grain - 1) & !(grain - 1);
        Self::new(start, end - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_overflows_fits_nowhere() {
        assert!(!Span::new(u64::MAX, 2).fits(u64::MAX));
        assert!(Span::new(3, 5).fits(8));
        assert!(!Span::new(4, 5).fits(8));
    }

    #[test]
    fn an_overlap_contains_the_bytes_that_both_spans_have() {
        let span = Span::new(10, 10);
        for (other, both) in [
            (Span::new(0, 10), None),
            (Span::new(20, 5), None),
            (Span::new(12, 0), None),
            (Span::new(0, 11), Some(Span::new(10, 1))),
            (Span::new(15, 50), Some(Span::new(15, 5))),
            (Span::new(12, 3), Some(Span::new(12, 3))),
            (Span::new(0, 90), Some(span)),
        ] {
            assert_eq!(span.overlap(other), both);
            assert_eq!(other.overlap(span), both);
        }
    }

    #[test]
    fn widening_covers_every_touched_unit_and_no_other() {
        assert_eq!(Span::new(65, 1).widen(64), Span::new(64, 64));
        assert_eq!(Span::new(63, 2).widen(64), Span::new(0, 128));
        assert_eq!(Span::new(64, 0).widen(64), Span::new(64, 0));
    }
}
