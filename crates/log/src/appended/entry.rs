//! What the log of appends has to know of an entry.

use stonecast_lineage::{Point, Term};

/// The numbers of an entry, as its header says them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFacts {
    /// The shard whose history the entry belongs to.
    pub shard: u32,
    /// The term of the primary that stamped it.
    pub term: Term,
    /// Its version in the shard.
    pub version: u64,
    /// Whether it is about the shard only, and repeats the version of the entry before it: a commit horizon.
    pub is_mark: bool,
    /// Bytes of the whole entry, at least one line. Entries begin at units; the rest of the last unit means nothing.
    pub size: u32,
}

impl EntryFacts {
    /// Its place in the history of its shard.
    pub fn point(&self) -> Point {
        Point {
            term: self.term,
            version: self.version,
        }
    }
}

/// How entries prove themselves. Both calls get copies, so the bytes do not change meanwhile.
pub trait EntryFormat {
    /// The facts in the first line of an entry, if the line proves itself: only a holder of the pool's append key made it. A
    /// scan believes the size, so a line that anybody can make would let clients make scans slow.
    fn header(&self, line: &[u8; 64]) -> Option<EntryFacts>;
    /// Whether `entry`, from such a line to the end of the size that it says, is whole.
    fn is_whole(&self, entry: &[u8]) -> bool;
}
