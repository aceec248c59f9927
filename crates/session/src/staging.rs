//! Memory from which entries are sent: a ring of entries, each in one piece.
//!
//! ```text
//!   | entry 4 | entry 5 |  free   | entry 3 | skipped |        an entry that does not fit the end begins at the start
//!                       ^ head    ^ tail
//! ```
//!
//! Bytes are released in the order of the entries. The head never moves back: the caller reserves bytes only when the
//! append can no longer fail. An empty ring begins at its start, so an empty ring takes every entry that fits the ring
//! at all.

use std::collections::VecDeque;

use stonecast_base::mutant;

/// A ring of entries, each in one piece.
#[derive(Debug)]
pub struct Staging {
    size: u64,
    /// Starts and ends of the entries, oldest first.
    entries: VecDeque<(u64, u64)>,
}

impl Staging {
    /// An empty ring of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            entries: VecDeque::new(),
        }
    }

    /// The start of `size` bytes in one piece, if they are free. [`Staging::push`] takes them.
    pub fn room(&self, size: u64) -> Option<u64> {
        let (Some(&(tail, _)), Some(&(_, head))) = (self.entries.front(), self.entries.back())
        else {
            return (size <= self.size).then_some(0);
        };
        if tail < head {
            if head + size <= self.size {
                return Some(head);
            }
            return (size <= tail && !mutant!(StagingNeverWraps)).then_some(0);
        }
        (head + size <= tail).then_some(head)
    }

    /// Takes `size` bytes from `start`, which [`Staging::room`] has named.
    pub fn push(&mut self, start: u64, size: u64) {
        self.entries.push_back((start, start + size));
    }

    /// Releases the oldest entry, which is sent: the device is done with its bytes.
    ///
    /// # Panics
    /// If the ring is empty.
    pub fn pop(&mut self) {
        self.entries.pop_front().expect("an entry was staged");
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    /// Needs an empty ring to begin at its start, and full use of the bytes before the tail.
    #[test]
    fn an_empty_ring_takes_whatever_fits_it_wherever_the_entry_before_stood() {
        let mut ring = Staging::new(1024);
        ring.push(ring.room(640).unwrap(), 640);
        assert_eq!(ring.room(512), None, "neither end has so much");
        ring.pop();
        assert_eq!(ring.room(1024), Some(0));
        ring.push(0, 640);
        ring.push(ring.room(320).unwrap(), 320);
        ring.pop();
        assert_eq!(ring.room(512), Some(0), "the end is skipped");
        ring.push(0, 512);
        ring.pop();
        ring.pop();
        assert_eq!(
            ring.room(1024),
            Some(0),
            "nothing of what was skipped is kept"
        );
        assert_eq!(ring.room(1025), None);
    }

    #[test]
    fn a_full_ring_has_no_room_and_equal_ends_mean_full() {
        let mut ring = Staging::new(256);
        for start in [0, 64, 128, 192] {
            assert_eq!(ring.room(64), Some(start));
            ring.push(start, 64);
        }
        assert_eq!(ring.room(1), None);
        ring.pop();
        ring.push(ring.room(64).unwrap(), 64);
        assert_eq!(ring.room(1), None, "the head has come round to the tail");
    }

    #[test]
    fn entries_never_overlap() {
        const SEED: u64 = 11;
        let mut random = stonecast_base::random_from_seed(SEED);
        let mut ring = Staging::new(1 << 12);
        let mut live: VecDeque<(u64, u64)> = VecDeque::new();
        for round in 0..20_000 {
            let size = 64 * random.random_range(1..=20u64);
            if let Some(start) = ring.room(size) {
                let end = start + size;
                let apart = |&(from, to): &(u64, u64)| end <= from || to <= start;
                assert!(
                    end <= 1 << 12 && live.iter().all(apart),
                    "seed {SEED}, round {round}"
                );
                ring.push(start, size);
                live.push_back((start, end));
            } else {
                assert!(
                    !live.is_empty(),
                    "seed {SEED}, round {round}: an empty ring refuses"
                );
            }
            if random.random_bool(0.5) && live.pop_front().is_some() {
                ring.pop();
            }
        }
    }
}
