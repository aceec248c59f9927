//! Stamps: what the server adds to a record to publish it.
//!
//! ```text
//!   byte   8          16           24         28
//!          sequence   commit tag   previous | durable
//! ```
//!
//! A stamp is three words of the record's first line. They are stored one by one, the sequence last; since the commit
//! tag covers all of them and the record's tag, place and size, a stamp of which a crash left some words never passes.
//!
//! The size is covered so that a scan can believe it before it has read the record: a client that may still write its
//! published records cannot make the scan hash a mebibyte for each of them.

use stonecast_base::mutant;
use stonecast_media::Region;

use crate::format::{LogFormat, UNIT_SIZE};
use crate::record::RecordHeader;

const SEQUENCE_OFFSET: u64 = 8;
const COMMIT_TAG_OFFSET: u64 = 16;
const LINKS_OFFSET: u64 = 24;

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Commit sequence number, from 1.
    pub sequence: u64,
    /// Unit of the stamped record before this one in the segment; 0: the first above the seal.
    pub previous: u32,
    /// Every record stamped in this segment below this unit is durable.
    pub durable: u32,
}

impl Stamp {
    /// The three words, in their order in the record: of a record that was checked to have this `tag`, and that takes
    /// `size` bytes of the log.
    #[inline]
    pub fn words(&self, format: &LogFormat, position: u64, generation: u32, tag: u64, size: u64) -> [u64; 3] {
        let links = u64::from(self.previous) | u64::from(self.durable) << 32;
        let place = u64::from(generation) | (size / UNIT_SIZE) << 32;
        [self.sequence, format.commit_tag([position, place, tag, self.sequence, links]), links]
    }

    /// Stamps the record at `position` and returns the commit tag. The record is published once these bytes and the
    /// record are durable.
    ///
    /// `tag` and `size` are those of the copy that was checked: what a client may have put into the record since then
    /// is not read again, and will not pass.
    pub fn write(&self, region: &dyn Region, format: &LogFormat, position: u64, generation: u32, tag: u64, size: u64) -> u64 {
        assert!(self.sequence != 0, "0 means that a record is not published");
        assert!(position.is_multiple_of(UNIT_SIZE) && size.is_multiple_of(UNIT_SIZE));
        let [sequence, commit_tag, links] = self.words(format, position, generation, tag, size);
        region.store(position + LINKS_OFFSET, links);
        region.store(position + COMMIT_TAG_OFFSET, commit_tag);
        region.store(position + SEQUENCE_OFFSET, sequence);
        commit_tag
    }

    /// Whether the server has stamped `header` at this position in this generation. Says nothing of the bytes after the
    /// header: they are covered by the tag, which the stamp binds.
    #[inline]
    pub fn check(header: &RecordHeader, format: &LogFormat, position: u64, generation: u32) -> bool {
        let stamp = Self { sequence: header.sequence(), previous: header.previous(), durable: header.durable() };
        let [_, commit_tag, _] = stamp.words(format, position, generation, header.tag(), header.size());
        stamp.sequence != 0 && commit_tag == header.commit_tag() || mutant!(CommitTagIgnored)
    }
}

/// Whether a unit may start a stamped record: the cheapest look at it.
#[inline]
pub(crate) fn may_be_stamped(line: &[u8; 64]) -> bool {
    line[COMMIT_TAG_OFFSET as usize..][..8] != [0; 8]
}

/// Takes away the stamp, or what a crash left of one, of whatever starts at `position`. A line without is not written, and
/// stays clean.
///
/// It is the commit tag that goes: no other record has the same one at this place. The other words of a stamp may well be
/// stored again, since sequence numbers that nobody was told of are given out again.
pub(crate) fn clear(region: &dyn Region, position: u64) {
    if region.load(position + COMMIT_TAG_OFFSET) != 0 {
        region.store(position + COMMIT_TAG_OFFSET, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, format};
    use crate::{Condition, Draft, Kind, RECORD_HEADER_SIZE};

    fn stamped() -> (LogFormat, Vec<u8>) {
        let format = format(4096, 2);
        let draft = Draft { kind: Kind::Put, condition: Condition::None, token: 0, key: b"key", value: b"value" };
        let mut record = Vec::new();
        draft.encode(&format, 256, 3, 1, &mut record);
        let memory = Memory::new(8192);
        memory.write(256, &record);
        let tag = u64::from_le_bytes(*record.first_chunk().unwrap());
        Stamp { sequence: 9, previous: 4, durable: 4 }.write(&memory, &format, 256, 3, tag, record.len() as u64);
        memory.read(256, &mut record);
        (format, record)
    }

    fn passes(format: &LogFormat, record: &[u8], position: u64, generation: u32) -> bool {
        let header = RecordHeader::parse(record.first_chunk::<RECORD_HEADER_SIZE>().unwrap());
        header.is_ok_and(|header| Stamp::check(&header, format, position, generation))
    }

    #[test]
    fn a_stamp_passes_at_its_place_alone() {
        let (format, record) = stamped();
        assert!(passes(&format, &record, 256, 3));
        assert!(!passes(&format, &record, 320, 3));
        assert!(!passes(&format, &record, 256, 4));
        assert!(!passes(&LogFormat { secret: Some(crate::Secret::new([1, 3])), ..format }, &record, 256, 3));
    }

    /// Every proper subset of the three words, over the zeros that the writer left.
    #[test]
    fn an_interrupted_stamp_never_passes() {
        let (format, record) = stamped();
        for subset in 0..7 {
            let mut torn = record.clone();
            for word in (0..3).filter(|word| subset >> word & 1 == 0) {
                torn[8 + word * 8..][..8].fill(0);
            }
            assert!(!passes(&format, &torn, 256, 3), "words {subset:03b}");
        }
    }

    /// Needs the size in the words that the commit tag covers.
    #[test]
    fn a_header_whose_length_was_changed_after_the_stamp_is_not_believed() {
        let (format, mut record) = stamped();
        record[48..52].copy_from_slice(&(1_u32 << 20).to_le_bytes());
        assert!(RecordHeader::parse(record.first_chunk().unwrap()).is_ok());
        assert!(!passes(&format, &record, 256, 3));
    }

    #[test]
    #[should_panic(expected = "only who holds the pool's secret")]
    fn a_client_cannot_make_a_stamp() {
        let format = LogFormat { secret: None, ..format(4096, 2) };
        Stamp { sequence: 1, previous: 0, durable: 4 }.words(&format, 256, 1, 0, 64);
    }
}
