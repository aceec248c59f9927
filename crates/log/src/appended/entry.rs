//! The facts about an entry that the log of appends needs.

use stonecast_lineage::{Point, Term};

/// The numbers in the header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFacts {
    /// The shard whose history the entry belongs to.
    pub shard: u32,
    /// The term of the primary that stamped the entry.
    pub term: Term,
    /// The version of the entry in its shard.
    pub version: u64,
    /// Whether the entry is a commit horizon: it is about the shard only, and repeats the version of the entry before
    /// it.
    pub is_mark: bool,
    /// Bytes of the whole entry, at least one line. Entries begin at units; the rest of the last unit means nothing.
    pub size: u32,
}

impl EntryFacts {
    /// The place of the entry in the history of its shard.
    pub fn point(&self) -> Point {
        Point {
            term: self.term,
            version: self.version,
        }
    }
}

/// Checks the proofs of entries. Both calls get copies, so the bytes do not change meanwhile.
pub trait EntryFormat {
    /// The facts in the first line of an entry, if the line proves itself: only a holder of the pool's append key made
    /// it. A scan believes the size, so clients could slow scans down if they could make such a line.
    fn header(&self, line: &[u8; 64]) -> Option<EntryFacts>;
    /// Whether `entry` is whole. It begins with such a line and has the size that the line states.
    fn is_whole(&self, entry: &[u8]) -> bool;
}
