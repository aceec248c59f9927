//! The part of a pool that holds the log of a tenure.

use stonecast_base::Span;
use stonecast_media::Region;

/// A ring of bytes in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogArea {
    /// Bytes from the start of the pool; a multiple of 64.
    pub offset: u64,
    /// Bytes of the ring; a multiple of 64.
    pub size: u64,
}

impl LogArea {
    /// The bytes of the pool that hold `size` bytes of the log from `position` on: one piece, or two where the ring
    /// begins again.
    ///
    /// # Panics
    /// Panics if the ring is shorter.
    pub fn pieces(&self, position: u64, size: u64) -> impl Iterator<Item = Span> + use<> {
        assert!(size <= self.size, "{size} bytes in a ring of {}", self.size);
        let start = position % self.size;
        let first = size.min(self.size - start);
        [
            Span::new(self.offset + start, first),
            Span::new(self.offset, size - first),
        ]
        .into_iter()
        .filter(|piece| piece.size > 0)
    }

    /// Copies bytes of the log out.
    pub fn read(&self, region: &dyn Region, position: u64, into: &mut [u8]) {
        let mut rest = into;
        for piece in self.pieces(position, rest.len() as u64) {
            let (now, later) = rest.split_at_mut(piece.size as usize);
            region.read(piece.offset, now);
            rest = later;
        }
    }

    /// Copies bytes into the log.
    pub fn write(&self, region: &dyn Region, position: u64, from: &[u8]) {
        let mut rest = from;
        for piece in self.pieces(position, rest.len() as u64) {
            let (now, later) = rest.split_at(piece.size as usize);
            region.write(piece.offset, now);
            rest = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_behind_the_end_of_the_ring_lie_at_its_start() {
        let area = LogArea {
            offset: 640,
            size: 128,
        };
        let pieces = |position, size| area.pieces(position, size).collect::<Vec<_>>();
        assert_eq!(pieces(0, 128), [Span::new(640, 128)]);
        assert_eq!(pieces(128 + 120, 8), [Span::new(760, 8)]);
        assert_eq!(pieces(120, 24), [Span::new(760, 8), Span::new(640, 16)]);
        assert_eq!(pieces(120, 0), []);
    }
}
