//! Records that are longer than a message of the backup.
//!
//! ```text
//!   body    |---------------|---------------|------|
//!           | header | body of a piece ..   as many bytes as a message takes
//! ```
//!
//! All messages of one connection arrive in the order of their SENDs, so records of all sizes keep one order.

use std::ops::Range;

use stonecast_replication::{HEADER_SIZE, Piece};

/// Cuts records for the messages of one backup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    /// Bytes of the longest message, with its header.
    message_size_max: u32,
}

impl Pieces {
    /// Cuts records for messages of this size. `None`: a message of this size has no room for a byte of a record.
    pub fn in_messages_of(message_size_max: u32) -> Option<Self> {
        (message_size_max > HEADER_SIZE as u32).then_some(Self { message_size_max })
    }

    pub fn message_size_max(self) -> u32 {
        self.message_size_max
    }

    /// The pieces of a record with a body of `size` bytes, in order. An entry without a body has one.
    pub fn of(self, size: usize) -> impl Iterator<Item = (Piece, Range<usize>)> {
        let step = self.message_size_max as usize - HEADER_SIZE;
        let starts = (0..size.max(1)).step_by(step);
        starts.map(move |start| {
            let end = size.min(start + step);
            let piece = Piece {
                offset: start as u32,
                is_last: end == size,
            };
            (piece, start..end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_record_once_and_only_the_last_one_ends_it() {
        assert!(Pieces::in_messages_of(64).is_none());
        let pieces = Pieces::in_messages_of(164).unwrap();
        for (size, count) in [(0, 1), (1, 1), (100, 1), (101, 2), (200, 2), (1000, 10)] {
            let cut: Vec<_> = pieces.of(size).collect();
            assert_eq!(cut.len(), count, "{size} bytes");
            assert_eq!(cut[0].0.is_whole(), count == 1);
            let mut end = 0;
            for (place, (piece, bytes)) in cut.iter().enumerate() {
                assert_eq!((piece.offset as usize, bytes.start), (end, end));
                assert_eq!(piece.is_last, place + 1 == count);
                end = bytes.end;
            }
            assert_eq!(end, size);
        }
    }
}
