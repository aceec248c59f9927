//! Stamps: what the server adds to a record to publish it.
//!
//! A stamp lies in the record's first line beside the tag, in words that each are failure-atomic: sequence, commit tag,
//! and the two links in one word. The commit tag covers the others and the record's tag and place, so a stamp of which
//! only some words reached the medium does not check, and neither does one over a record that was changed.

use stonecast_base::hash;
use stonecast_media::Region;

use crate::format::LogFormat;
use crate::record::RecordHeader;

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Commit sequence number, from 1.
    pub sequence: u64,
    /// Unit of the stamped record before this one in its segment; 0: the first after the seal.
    pub previous: u32,
    /// Every record stamped in this segment below this unit was durable when this one was stamped.
    pub durable: u32,
}

impl Stamp {
    /// Stamps the record at byte `position` of `log` and returns the commit tag. The record counts as soon as the bytes
    /// are on the medium; a crash before leaves it unstamped or, in part, unchecked.
    pub fn write(&self, log: &dyn Region, format: &LogFormat, position: u64, generation: u32, tag: u64) -> u64 {
        assert!(self.sequence > 0, "sequence numbers start at 1");
        let commit_tag = self.commit_tag(format, position, generation, tag);
        log.store(position + 8, self.sequence);
        log.store(position + 24, self.links());
        log.store(position + 16, commit_tag);
        commit_tag
    }

    /// The stamp of `header`, if it has one that checks, with its commit tag.
    pub fn check(format: &LogFormat, position: u64, header: &RecordHeader) -> Option<(Self, u64)> {
        let raw = &header.0;
        let stamp = Self { sequence: raw.sequence.get(), previous: raw.previous.get(), durable: raw.durable.get() };
        let commit_tag = stamp.commit_tag(format, position, header.generation(), header.tag());
        (stamp.sequence != 0 && raw.commit_tag.get() == commit_tag).then_some((stamp, commit_tag))
    }

    fn links(&self) -> u64 {
        u64::from(self.previous) | u64::from(self.durable) << 32
    }

    fn commit_tag(&self, format: &LogFormat, position: u64, generation: u32, tag: u64) -> u64 {
        let mut bytes = [0; 40];
        let words = [position, generation.into(), tag, self.sequence, self.links()];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        hash::siphash24(format.secret(), &bytes)
    }
}
