//! The header of a segment: the pool and number of the segment, and its generation of use.
//!
//! There are two copies, in the first and the last line before the records, so that damage to one copy is repaired from
//! the other. Everything in a header except the generation is known in advance, and the generation shares its 8-byte
//! word with the check: one word in each copy takes a segment from one generation to the next, so the segment is always
//! in one of the two. Only the first use, over zeros, can leave an invalid header.
//!
//! The second copy also keeps a word that is not part of this header: the witness of the next
//! segment (`witness.rs`).
//!
//! The magic tells whether records of this log or appends of other nodes fill the segment. A segment that changes its
//! kind gets another generation, and each copy changes in more than one word. So the caller persists the first copy
//! before it changes the second: one of them is always whole.
//!
//! The first use is persisted together with the first records. So if a crash leaves no valid copy, the `durable` of
//! every stamped record in the segment states that nothing there was durable yet.

use stonecast_base::{Span, hash};
use stonecast_media::Region;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{LogFormat, SEGMENT_HEADER_UNITS, UNIT_SIZE};
use crate::layout::layout;
use crate::record::GENERATION_MAX;
use crate::witness::{self, WITNESS_OFFSET};

const VERSION: u32 = 2;
/// Units that hold a copy of the header.
const COPIES: [u32; 2] = [0, 3];
/// The copy that holds a witness of the next segment.
const WITNESS_COPY: usize = 1;
/// The unit of that copy.
pub(crate) const WITNESS_UNIT: u32 = COPIES[WITNESS_COPY];
const CHECK_OFFSET: usize = std::mem::offset_of!(HeaderBytes, check);
const _: () = assert!(std::mem::offset_of!(HeaderBytes, witness) == WITNESS_OFFSET as usize);

layout! {
    /// A copy of the header.
    HeaderBytes, FIELDS:
    magic: [u8; 8], "server", "`stonsegm`: a segment of records; `stonappd`: one that appends fill ([append log](append-log.md))";
    version: U32, "server", "format version, 2";
    number: U32, "server", "number of the segment in the log";
    uuid: [u8; 16], "server", "UUID of the pool; bytes in the order of its text";
    generation: U32, "server", "counts the uses of the segment, from 1 to 2^29 - 1";
    check: U32, "server", "low 32 bits of XXH3-64, seed 0, over bytes 0 to 36";
    witness: U64, "server", "in the second copy: the state of the next segment, see below; in the first: zero";
    reserved: [u8; 16], "server", "zero";
}

/// The content of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Records of this log.
    Records,
    /// Entries that other nodes append.
    Appends,
}

impl SegmentKind {
    const ALL: [Self; 2] = [Self::Records, Self::Appends];

    fn magic(self) -> [u8; 8] {
        *match self {
            Self::Records => b"stonsegm",
            Self::Appends => b"stonappd",
        }
    }
}

/// The content of the places of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFound {
    /// At least one copy is valid.
    Valid {
        kind: SegmentKind,
        generation: u32,
        /// Whether both copies are valid and agree.
        both: bool,
    },
    /// No copy is valid.
    Lost {
        /// Whether the places hold anything at all.
        written: bool,
    },
    /// No copy is valid, and one is the valid header of another segment or of a segment of another pool.
    Foreign {
        /// The number of that segment.
        number: u32,
        /// The pool that it belongs to.
        uuid: u128,
    },
}

impl HeaderBytes {
    fn new(format: &LogFormat, number: u32, kind: SegmentKind, generation: u32) -> Self {
        let mut header = Self {
            magic: kind.magic(),
            version: U32::new(VERSION),
            number: U32::new(number),
            uuid: format.uuid.to_be_bytes(),
            generation: U32::new(generation),
            check: U32::ZERO,
            witness: U64::ZERO,
            reserved: [0; 16],
        };
        header.check = U32::new(hash::xxh3_64(0, &header.as_bytes()[..CHECK_OFFSET]) as u32);
        header
    }

    /// The content of the segment; `None` if the magic is unknown.
    fn kind(&self) -> Option<SegmentKind> {
        SegmentKind::ALL
            .into_iter()
            .find(|kind| kind.magic() == self.magic)
    }

    /// The pool and the number of the segment to which this header belongs, if it is valid as that
    /// copy in a log of that many segments.
    fn owner(&self, copy: usize, segment_count: u32) -> Option<(u128, u32)> {
        let format = LogFormat {
            uuid: u128::from_be_bytes(self.uuid),
            tag_key: 0,
            secret: None,
            segment_size: 0,
            segment_count: 0,
        };
        let (number, generation) = (self.number.get(), self.generation.get());
        let expected = Self {
            witness: self.witness,
            ..Self::new(&format, number, self.kind()?, generation)
        };
        let word = self.witness.get();
        let next = if number.wrapping_add(1) < segment_count {
            number + 1
        } else {
            0
        };
        // The last segment of a log that has grown since keeps the witness of the first one, until recovery clears it.
        let may_hold_word = copy == WITNESS_COPY
            && [next, 0]
                .iter()
                .any(|&told| witness::is_possible(word, format.uuid, told));
        ((1..=GENERATION_MAX).contains(&generation)
            && *self == expected
            && (word == 0 || may_hold_word))
            .then_some((format.uuid, number))
    }
}

/// Writes both copies of the header of a segment of records and returns what the caller must
/// persist. The witness of the next segment stays. The segment was one of records before, or none.
pub(crate) fn write(region: &dyn Region, format: &LogFormat, number: u32, generation: u32) -> Span {
    for copy in 0..COPIES.len() {
        write_copy(
            region,
            format,
            number,
            (SegmentKind::Records, generation),
            copy,
        );
    }
    format.span(number, 0, SEGMENT_HEADER_UNITS)
}

/// Writes one copy of the header, 0 or 1, and returns what the caller must persist. The witness of
/// the next segment stays.
pub(crate) fn write_copy(
    region: &dyn Region,
    format: &LogFormat,
    number: u32,
    (kind, generation): (SegmentKind, u32),
    copy: usize,
) -> Span {
    assert!(
        (1..=GENERATION_MAX).contains(&generation),
        "generations count from 1 to {GENERATION_MAX}"
    );
    let header = HeaderBytes::new(format, number, kind, generation);
    let (before, from_witness) = header.as_bytes().split_at(WITNESS_OFFSET as usize);
    let behind = &from_witness[size_of::<U64>()..];
    let unit = COPIES[copy];
    let position = format.position(number, unit);
    if copy == WITNESS_COPY {
        region.write(position, before);
        region.write(
            position + (UNIT_SIZE as usize - behind.len()) as u64,
            behind,
        );
    } else {
        region.write(position, header.as_bytes());
    }
    format.span(number, unit, unit + 1)
}

/// Reads the header. Of two valid copies the newer generation counts: a crash came between the two
/// writes.
pub(crate) fn read(region: &dyn Region, format: &LogFormat, number: u32) -> HeaderFound {
    let copies = COPIES.map(|unit| {
        let mut bytes = [0; UNIT_SIZE as usize];
        region.read(format.position(number, unit), &mut bytes);
        bytes
    });
    let headers =
        copies.map(|bytes| HeaderBytes::read_from_bytes(&bytes).expect("a header is one line"));
    let owners = [0, 1].map(|copy| headers[copy].owner(copy, format.segment_count));
    let valid = [0, 1].map(|copy| {
        (owners[copy] == Some((format.uuid, number)))
            .then(|| Some((headers[copy].generation.get(), headers[copy].kind()?)))
            .flatten()
    });
    let newest = valid
        .into_iter()
        .flatten()
        .max_by_key(|(generation, _)| *generation);
    if let Some((generation, kind)) = newest {
        return HeaderFound::Valid {
            kind,
            generation,
            both: valid[0] == valid[1],
        };
    }
    match owners[0].or(owners[1]) {
        Some((uuid, number)) => HeaderFound::Foreign { number, uuid },
        None => HeaderFound::Lost {
            written: copies.as_flattened().iter().any(|&byte| byte != 0),
        },
    }
}

/// The generation of segment `number`, with any content; `None` if no copy of its header is valid.
pub fn generation_of(region: &dyn Region, format: &LogFormat, number: u32) -> Option<u32> {
    match read(region, format, number) {
        HeaderFound::Valid { generation, .. } => Some(generation),
        HeaderFound::Lost { .. } | HeaderFound::Foreign { .. } => None,
    }
}

/// Whether appends fill segment `number`, as far as its header shows.
pub fn is_filled_by_appends(region: &dyn Region, format: &LogFormat, number: u32) -> bool {
    matches!(
        read(region, format, number),
        HeaderFound::Valid {
            kind: SegmentKind::Appends,
            ..
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Witness;
    use crate::facts::format;
    use crate::memory::Memory;

    #[test]
    fn a_header_is_found_until_both_copies_are_damaged() {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        assert_eq!(
            read(&memory, &format, 1),
            HeaderFound::Lost { written: false }
        );
        assert_eq!(write(&memory, &format, 1, 7), Span::new(4096, 256));
        assert_eq!(
            read(&memory, &format, 1),
            HeaderFound::Valid {
                kind: SegmentKind::Records,
                generation: 7,
                both: true
            }
        );
        for bit in 0..64 * 8 {
            memory.flip(4096, bit);
            assert_eq!(
                read(&memory, &format, 1),
                HeaderFound::Valid {
                    kind: SegmentKind::Records,
                    generation: 7,
                    both: false
                }
            );
            memory.flip(4096 + 192, bit);
            assert_eq!(
                read(&memory, &format, 1),
                HeaderFound::Lost { written: true }
            );
            memory.flip(4096, bit);
            assert_eq!(
                read(&memory, &format, 1),
                HeaderFound::Valid {
                    kind: SegmentKind::Records,
                    generation: 7,
                    both: false
                }
            );
            memory.flip(4096 + 192, bit);
        }
    }

    #[test]
    fn a_header_of_another_segment_or_pool_is_invalid() {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        write(&memory, &format, 0, 1);
        let mut header = [0; 256];
        memory.read(0, &mut header);
        memory.write(4096, &header);
        let foreign = HeaderFound::Foreign {
            number: 0,
            uuid: format.uuid,
        };
        assert_eq!(read(&memory, &format, 1), foreign);
        let other = LogFormat {
            uuid: format.uuid + 1,
            ..format
        };
        assert_eq!(read(&memory, &other, 0), foreign);
    }

    /// Needs `write` to leave the word unchanged, and `read` to check it only in the second copy.
    #[test]
    fn a_header_keeps_the_witness_of_the_next_segment() {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        let told = Witness {
            generation: 3,
            unit: 9,
        };
        let word = Witness::word(Some(told), &format, 0);
        Witness::store(&memory, &format, 0, word);
        for generation in [1, 2] {
            write(&memory, &format, 1, generation);
            let both = HeaderFound::Valid {
                kind: SegmentKind::Records,
                generation,
                both: true,
            };
            assert_eq!(read(&memory, &format, 1), both);
            assert_eq!(Witness::load(&memory, &format, 0), word);
        }
        let damaged = HeaderFound::Valid {
            kind: SegmentKind::Records,
            generation: 2,
            both: false,
        };
        memory.store(4096 + WITNESS_OFFSET, word);
        assert_eq!(
            read(&memory, &format, 1),
            damaged,
            "the word is in the first copy"
        );
        memory.store(4096 + WITNESS_OFFSET, 0);
        let of_other = Witness::word(Some(told), &format, 1);
        Witness::store(&memory, &format, 0, of_other);
        assert_eq!(
            read(&memory, &format, 1),
            damaged,
            "the word belongs to another segment"
        );
    }

    /// A crash leaves any of the stored words. Needs generation and check in one word.
    #[test]
    fn a_segment_that_changes_its_generation_is_always_in_the_old_or_the_new_one() {
        let format = format(4096, 2);
        let (old, new) = (Memory::new(4096), Memory::new(4096));
        write(&old, &format, 0, 4);
        write(&new, &format, 0, 5);
        let differing: Vec<u64> = (0..32)
            .filter(|word| old.load(word * 8) != new.load(word * 8))
            .collect();
        assert_eq!(differing, [4, 28], "one word in each copy");
        for subset in 0..4 {
            let memory = Memory::new(4096);
            for word in 0..32 {
                let from = match differing.iter().position(|&differs| differs == word) {
                    Some(index) if subset >> index & 1 == 1 => &new,
                    _ => &old,
                };
                memory.store(word * 8, from.load(word * 8));
            }
            let expected = if subset == 0 { 4 } else { 5 };
            assert_eq!(
                read(&memory, &format, 0),
                HeaderFound::Valid {
                    kind: SegmentKind::Records,
                    generation: expected,
                    both: subset == 0 || subset == 3
                }
            );
        }
    }
}
