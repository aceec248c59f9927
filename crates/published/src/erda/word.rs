//! The 8-byte word of an entry: the places of the newest object of a key and of the previous one.
//!
//! ```text
//!   63        62           32 31            1 0
//!   +---------+--------------+---------------+---+
//!   | New Tag | offset one   | offset two    | 0 |
//!   +---------+--------------+---------------+---+
//! ```
//!
//! New Tag 1: offset one is the newest; 0: offset two. Offsets are bytes from the start of the
//! head's region; 0 means none, because no object lies there. Paper figure 6 and section 4.1; bit
//! positions as in the artefact.

use crate::geometry::OFFSET_MAX;

const TAG: u64 = 1 << 63;
const ONE: u32 = 32;
const TWO: u32 = 1;

/// The word of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub u64);

impl Word {
    /// The word of a new key: tag 0, the second offset.
    pub fn first(offset: u64) -> Self {
        Self(place(offset) << TWO)
    }

    fn tag(self) -> bool {
        self.0 & TAG != 0
    }

    fn offset(self, one: bool) -> Option<u64> {
        let offset = self.0 >> if one { ONE } else { TWO } & OFFSET_MAX;
        (offset != 0).then_some(offset)
    }

    fn with(self, one: bool, offset: u64) -> Self {
        let shift = if one { ONE } else { TWO };
        Self(self.0 & !(OFFSET_MAX << shift) | place(offset) << shift)
    }

    /// Offset of the newest object.
    pub fn newest(self) -> Option<u64> {
        self.offset(self.tag())
    }

    /// Offset of the previous object; during cleaning, offset of the newest object in the target
    /// region.
    pub fn older(self) -> Option<u64> {
        self.offset(!self.tag())
    }

    /// The word after an update: the tag flips, and the new offset replaces the older one.
    pub fn updated(self, offset: u64) -> Self {
        Self(self.with(!self.tag(), offset).0 ^ TAG)
    }

    /// The word after an update while the log is cleaned: the tag stays.
    pub fn with_newest(self, offset: u64) -> Self {
        self.with(self.tag(), offset)
    }

    /// The word with the offset of the object in the target region.
    pub fn with_older(self, offset: u64) -> Self {
        self.with(!self.tag(), offset)
    }

    /// The word after its newest object was found broken: the older object becomes the newest, and the word names no
    /// older object.
    pub fn rolled_back(self) -> Self {
        Self(self.with_newest(0).0 ^ TAG)
    }

    /// The word at the end of cleaning: the other offset counts, and the replaced one is gone.
    pub fn switched(self) -> Self {
        self.rolled_back()
    }
}

fn place(offset: u64) -> u64 {
    assert!(
        offset <= OFFSET_MAX,
        "an offset has 31 bits, so a head reaches 2 GiB: {offset}"
    );
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_update_flips_the_tag_and_keeps_the_previous_version() {
        let first = Word::first(100);
        assert_eq!(
            (first.newest(), first.older(), first.0 >> 63),
            (Some(100), None, 0)
        );
        let second = first.updated(200);
        assert_eq!(
            (second.newest(), second.older(), second.0 >> 63),
            (Some(200), Some(100), 1)
        );
        let third = second.updated(300);
        assert_eq!(
            (third.newest(), third.older(), third.0 >> 63),
            (Some(300), Some(200), 0)
        );
        assert_eq!(third.rolled_back().newest(), Some(200));
        assert_eq!(third.rolled_back().older(), None);
        assert_eq!(third.0 & 1, 0, "the last bit is reserved");
    }

    #[test]
    fn cleaning_leaves_the_tag_until_it_is_done() {
        let word = Word::first(100).updated(200);
        let moved = word.with_older(32);
        assert_eq!((moved.newest(), moved.older()), (Some(200), Some(32)));
        assert_eq!(moved.with_newest(300).newest(), Some(300));
        assert_eq!(moved.switched().newest(), Some(32));
    }

    #[test]
    #[should_panic(expected = "31 bits")]
    fn a_third_region_of_a_head_is_out_of_reach() {
        let _ = Word::first(2 << 30);
    }
}
