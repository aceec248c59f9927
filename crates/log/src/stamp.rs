//! Stamps: the words that the server adds to a record to publish it.
//!
//! ```text
//!   byte   0          8            16                                 24
//!          sequence   commit tag   previous | durable | opening         the writer's bytes
//!                                  24 bits    24 bits   16 bits
//! ```
//!
//! A stamp is the first three words of a record. They are stored one by one, over the earlier content of the place:
//! zeros, or the stamp of an earlier use. The commit tag covers all three words and the record's tag, place, generation
//! and size. So a mixture of old and new words never passes, and neither does a stamp in front of another record.
//!
//! The size is covered so that a scan can trust it before it has read the record: a client that may
//! still write its published records cannot make the scan hash a mebibyte for each of them.
//!
//! **Void.** A publishing client stamps a record before it is certain that the record will count, and takes the record
//! back with one store: a different commit tag, which nothing else can have. A void record is an ordinary link of its
//! segment's chain, is counted by its seal, and names no key. A cleared record would look like damage, and a new stamp
//! takes three stores.

use stonecast_base::mutant;
use stonecast_media::Region;

use crate::format::{LogFormat, UNIT_SIZE, VOID};
use crate::record::RecordHeader;

const SEQUENCE_OFFSET: u64 = 0;
const COMMIT_TAG_OFFSET: u64 = 8;
const LINKS_OFFSET: u64 = 16;

const UNIT_BITS: u32 = 24;

/// The links of a stamp: to other records, and to the run in which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub previous: u32,
    pub durable: u32,
    pub opening: u16,
}

impl Links {
    #[inline]
    pub fn from_word(word: u64) -> Self {
        let unit = |shift: u32| (word >> shift) as u32 & ((1 << UNIT_BITS) - 1);
        Self {
            previous: unit(0),
            durable: unit(UNIT_BITS),
            opening: (word >> (2 * UNIT_BITS)) as u16,
        }
    }

    #[inline]
    pub fn word(self) -> u64 {
        u64::from(self.previous)
            | u64::from(self.durable) << UNIT_BITS
            | u64::from(self.opening) << (2 * UNIT_BITS)
    }
}

/// The words by which the server publishes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Commit sequence number, from 1.
    pub sequence: u64,
    /// Unit of the preceding stamped record in the segment; 0 for the first record above the seal.
    pub previous: u32,
    /// Every record stamped in this segment below this unit is durable.
    pub durable: u32,
    /// The opening in which the record was written and is stamped; the stamp holds its low 16 bits.
    pub opening: u32,
}

impl Stamp {
    /// The three words, in their order in the record, for a record whose checked tag is `tag` and
    /// that takes `size` bytes of the log.
    #[inline]
    pub fn words(
        &self,
        format: &LogFormat,
        position: u64,
        generation: u32,
        tag: u64,
        size: u64,
    ) -> [u64; 3] {
        assert!(
            self.previous >> UNIT_BITS == 0 && self.durable >> UNIT_BITS == 0,
            "units of a segment have 24 bits"
        );
        let links = Links {
            previous: self.previous,
            durable: self.durable,
            opening: self.opening as u16,
        }
        .word();
        let place = u64::from(generation) | (size / UNIT_SIZE) << 32;
        [
            self.sequence,
            format.commit_tag([position, place, tag, self.sequence, links]),
            links,
        ]
    }

    /// Stamps the record at `position` and returns the commit tag. The record is published once these bytes and the
    /// record are durable.
    ///
    /// `tag` and `size` belong to the checked copy: bytes that a client may have put into the record since then are not
    /// read again, and do not pass.
    #[inline]
    pub fn write(
        &self,
        region: &dyn Region,
        format: &LogFormat,
        position: u64,
        generation: u32,
        tag: u64,
        size: u64,
    ) -> u64 {
        assert!(self.sequence != 0, "0 means that a record is not published");
        assert!(position.is_multiple_of(UNIT_SIZE) && size.is_multiple_of(UNIT_SIZE));
        let [sequence, commit_tag, links] = self.words(format, position, generation, tag, size);
        region.store(position + LINKS_OFFSET, links);
        region.store(position + COMMIT_TAG_OFFSET, commit_tag);
        region.store(position + SEQUENCE_OFFSET, sequence);
        commit_tag
    }

    /// Puts the stamp into `record`, a [draft](crate::Draft::encode) for this position of this
    /// `tag`, and returns the commit tag, for a client that writes record and stamp together.
    pub fn put_into(
        &self,
        record: &mut [u8],
        format: &LogFormat,
        position: u64,
        generation: u32,
        tag: u64,
        size: u64,
    ) -> u64 {
        assert!(self.sequence != 0, "0 means that a record is not published");
        let words = self.words(format, position, generation, tag, size);
        for (into, word) in record.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *into = word.to_le_bytes();
        }
        words[1]
    }

    /// Judges the stamp of `header` at this position in this generation. It says nothing about the
    /// bytes after the header: the tag covers them, and the stamp binds the tag.
    #[inline]
    pub fn judge(
        header: &RecordHeader,
        format: &LogFormat,
        position: u64,
        generation: u32,
    ) -> Standing {
        let Links {
            previous,
            durable,
            opening,
        } = header.links();
        let stamp = Self {
            sequence: header.sequence(),
            previous,
            durable,
            opening: opening.into(),
        };
        let [_, commit_tag, _] =
            stamp.words(format, position, generation, header.tag(), header.size());
        match header.commit_tag() ^ commit_tag {
            0 if stamp.sequence != 0 => Standing::Published,
            VOID if stamp.sequence != 0 => Standing::Void,
            _ if mutant!(CommitTagIgnored) => Standing::Published,
            _ => Standing::Unstamped,
        }
    }
}

/// The verdict on a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The record has no stamp, or a stamp that was not made for it.
    Unstamped,
    /// The record counts.
    Published,
    /// The record was published and taken back.
    Void,
}

/// The commit tag of a record once it is void.
pub const fn void_tag(commit_tag: u64) -> u64 {
    commit_tag ^ VOID
}

/// Position of the commit tag of the record at `position`: the word that [`void_tag`] replaces.
pub const fn commit_tag_position(position: u64) -> u64 {
    position + COMMIT_TAG_OFFSET
}

/// Whether a unit may start a stamped record: the cheapest test.
#[inline]
pub(crate) fn may_be_stamped(line: &[u8; 64]) -> bool {
    line[COMMIT_TAG_OFFSET as usize..][..8] != [0; 8]
}

/// Clears the stamp, or the remains of one, at `position`. A line without a stamp is not written,
/// and stays clean.
///
/// Clearing the commit tag is enough: no other record has the same one at this place. The other
/// words of a stamp may well be stored again, since unacknowledged sequence numbers are given out
/// again.
pub(crate) fn clear(region: &dyn Region, position: u64) {
    if region.load(position + COMMIT_TAG_OFFSET) != 0 {
        region.store(position + COMMIT_TAG_OFFSET, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::format;
    use crate::memory::Memory;
    use crate::{Condition, Draft, Form, Kind, RECORD_START_SIZE, STAMP_SIZE};

    const STAMP: Stamp = Stamp {
        sequence: 9,
        previous: 4,
        durable: 4,
        opening: 1,
    };

    fn place(format: &LogFormat, memory: &Memory, generation: u32) -> u64 {
        let draft = Draft {
            kind: Kind::Put,
            form: Form::Whole,
            condition: Condition::None,
            token: 0,
            expires: None,
            key: b"key",
            value: b"value",
        };
        let mut record = Vec::new();
        let tag = draft.encode(format, 256, generation, 1, &mut record);
        memory.write(256 + STAMP_SIZE as u64, &record[STAMP_SIZE..]);
        tag
    }

    fn stamped() -> (LogFormat, [u8; RECORD_START_SIZE]) {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        let tag = place(&format, &memory, 3);
        STAMP.write(&memory, &format, 256, 3, tag, 64);
        let mut record = [0; RECORD_START_SIZE];
        memory.read(256, &mut record);
        (format, record)
    }

    fn passes(
        format: &LogFormat,
        record: &[u8; RECORD_START_SIZE],
        position: u64,
        generation: u32,
    ) -> bool {
        let judged = RecordHeader::parse(record)
            .map(|header| Stamp::judge(&header, format, position, generation));
        assert_ne!(judged, Ok(Standing::Void), "no record here is void");
        judged == Ok(Standing::Published)
    }

    #[test]
    fn a_stamp_passes_only_at_its_place() {
        let (format, record) = stamped();
        assert!(passes(&format, &record, 256, 3));
        assert!(!passes(&format, &record, 320, 3));
        assert!(!passes(&format, &record, 256, 4));
        assert!(!passes(
            &LogFormat {
                secret: Some(crate::Secret::new([1, 3])),
                ..format
            },
            &record,
            256,
            3
        ));
    }

    #[test]
    fn the_values_of_a_stamp_are_read_back_at_both_ends_of_every_field() {
        let unit_max = (1 << UNIT_BITS) - 1;
        for links in [
            (0, 0, 0),
            (unit_max, 0, 0),
            (0, unit_max, 0),
            (0, 0, u16::MAX),
            (4, 5, 6),
        ] {
            let links = Links {
                previous: links.0,
                durable: links.1,
                opening: links.2,
            };
            assert_eq!(Links::from_word(links.word()), links);
        }
    }

    /// Needs the third standing: without it a void record counts, or is missing in the chain.
    #[test]
    fn a_void_stamp_is_distinguished_from_all_others() {
        let (format, mut record) = stamped();
        let tag = u64::from_le_bytes(record[8..16].try_into().unwrap());
        record[8..16].copy_from_slice(&void_tag(tag).to_le_bytes());
        let header = RecordHeader::parse(&record).unwrap();
        assert_eq!(Stamp::judge(&header, &format, 256, 3), Standing::Void);
        assert_eq!(Stamp::judge(&header, &format, 320, 3), Standing::Unstamped);
        assert_eq!(Stamp::judge(&header, &format, 256, 4), Standing::Unstamped);
        assert!(may_be_stamped(&record));
        for bit in 64..128 {
            record[bit / 8] ^= 1 << (bit % 8);
            let header = RecordHeader::parse(&record).unwrap();
            assert_eq!(
                Stamp::judge(&header, &format, 256, 3),
                Standing::Unstamped,
                "bit {bit}"
            );
            record[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_stamp_put_into_a_draft_equals_the_stamp_stored_into_the_log() {
        let (format, record) = stamped();
        let draft = Draft {
            kind: Kind::Put,
            form: Form::Whole,
            condition: Condition::None,
            token: 0,
            expires: None,
            key: b"key",
            value: b"value",
        };
        let mut bytes = Vec::new();
        let tag = draft.encode(&format, 256, 3, 1, &mut bytes);
        STAMP.put_into(&mut bytes, &format, 256, 3, tag, 64);
        assert_eq!(bytes, record[..bytes.len()]);
    }

    /// Tries every proper subset of the three words: over zeros, over the stamp of an earlier generation of the same
    /// record, and over a stamp of the same record in the same generation that a crash left and recovery cleared.
    #[test]
    fn an_interrupted_stamp_never_passes() {
        let (format, record) = stamped();
        let memory = Memory::new(8192);
        let tag = place(&format, &memory, 2);
        STAMP.write(&memory, &format, 256, 2, tag, 64);
        let mut earlier = [0; 24];
        memory.read(256, &mut earlier);
        let mut cleared: [u8; 24] = *record.first_chunk().unwrap();
        cleared[8..16].fill(0);
        for old in [[0; 24], earlier, cleared] {
            for subset in 0..7 {
                let mut torn = record;
                for word in (0..3).filter(|word| subset >> word & 1 == 0) {
                    torn[word * 8..][..8].copy_from_slice(&old[word * 8..][..8]);
                }
                // If the old words equal the new ones, nothing is missing.
                assert_eq!(
                    passes(&format, &torn, 256, 3),
                    torn == record,
                    "words {subset:03b} over {old:?}"
                );
                assert!(
                    torn != record || subset & 0b010 != 0,
                    "the commit tag differs"
                );
            }
        }
    }

    /// Needs the record's tag and generation among the words that the commit tag covers: a client's
    /// WRITE leaves the stamp of an earlier use in place.
    #[test]
    fn a_record_behind_the_stamp_of_an_earlier_use_is_not_published() {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        let tag = place(&format, &memory, 2);
        STAMP.write(&memory, &format, 256, 2, tag, 64);
        place(&format, &memory, 3);
        let mut record = [0; RECORD_START_SIZE];
        memory.read(256, &mut record);
        assert!(may_be_stamped(&record));
        assert!(!passes(&format, &record, 256, 3) && !passes(&format, &record, 256, 2));
    }

    /// Needs the size in the words that the commit tag covers.
    #[test]
    fn a_header_whose_length_was_changed_after_the_stamp_is_refused() {
        let (format, mut record) = stamped();
        record[34] |= 0x08;
        assert!(RecordHeader::parse(&record).is_ok());
        assert!(!passes(&format, &record, 256, 3));
    }

    #[test]
    #[should_panic(expected = "only a holder of the pool's secret")]
    fn a_client_cannot_make_a_stamp() {
        let format = LogFormat {
            secret: None,
            ..format(4096, 2)
        };
        STAMP.words(&format, 256, 1, 0, 64);
    }
}
