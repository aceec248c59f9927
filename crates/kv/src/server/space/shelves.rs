//! Segments that are available to appenders.

use std::collections::{BTreeSet, VecDeque};

use super::Purpose;

/// Segments that are available to appenders.
#[derive(Default)]
pub(super) struct Shelves {
    /// Free segments. Puts take the first, and other purposes the last.
    pub free: VecDeque<u32>,
    /// Segments with room for another appender, by purpose, as room and number.
    partial: [BTreeSet<(u32, u32)>; Purpose::COUNT],
}

impl Shelves {
    /// Puts a segment among the partial ones. Returns false if the segment is there already.
    pub fn put_partial(&mut self, purpose: Purpose, room: u32, number: u32) -> bool {
        self.partial[purpose as usize].insert((room, number))
    }

    /// Takes a segment from the partial ones, if it is there.
    pub fn take_partial(&mut self, purpose: Purpose, room: u32, number: u32) {
        self.partial[purpose as usize].remove(&(room, number));
    }

    /// Room and number of the partial segment with the most room.
    pub fn roomiest(&self, purpose: Purpose) -> Option<(u32, u32)> {
        self.partial[purpose as usize].last().copied()
    }

    /// The most room of a partial segment other than `number`.
    pub fn room_beside(&self, purpose: Purpose, number: u32) -> u32 {
        let mut all = self.partial[purpose as usize].iter().rev();
        all.find(|&&(_, other)| other != number)
            .map_or(0, |&(room, _)| room)
    }

    /// Number of partial segments.
    pub fn partial_count(&self) -> u64 {
        self.partial.iter().map(BTreeSet::len).sum::<usize>() as u64
    }
}
