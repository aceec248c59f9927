//! Records: how they are written and how they are checked.

use stonecast_base::hash;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{KEY_SIZE_MAX, LogFormat, RECORD_HEADER_SIZE, UNIT_SIZE, VALUE_SIZE_MAX};

/// What a record does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Gives it a value.
    Put,
    /// Removes it.
    Delete,
}

/// On what a write depends. Kept in the record as a note; the server decides once, and the stamp says that it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// On nothing.
    None,
    /// The key's present version is this.
    Version(u64),
    /// The key is absent.
    Absent,
}

/// The first 64 bytes of a record as they lie in the log.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub tag: U64,
    pub sequence: U64,
    pub commit_tag: U64,
    pub previous: U32,
    pub durable: U32,
    pub generation: U32,
    pub epoch: U32,
    pub token: U64,
    pub value_size: U32,
    pub key_size: U16,
    pub kind: u8,
    pub condition: u8,
    pub expected: U64,
}

const _: () = assert!(size_of::<RawHeader>() == RECORD_HEADER_SIZE);

/// Where the bytes start that the tag covers: everything but the tag and the stamp.
pub(crate) const TAGGED_FROM: usize = 32;

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// What it does.
    pub kind: Kind,
    /// On what it depends.
    pub condition: Condition,
    /// Names the operation, for retries; 0: none.
    pub token: u64,
    /// 1 to [`KEY_SIZE_MAX`] bytes.
    pub key: &'a [u8],
    /// At most [`VALUE_SIZE_MAX`] bytes; empty for a delete.
    pub value: &'a [u8],
}

/// Bytes that a record takes in the log.
pub const fn record_size(key_size: usize, value_size: usize) -> u64 {
    ((RECORD_HEADER_SIZE + key_size + value_size) as u64).next_multiple_of(UNIT_SIZE)
}

impl Draft<'_> {
    /// The bytes of the record for byte `position` of the log, unstamped. Replaces what `into` holds.
    pub fn encode(&self, format: &LogFormat, position: u64, generation: u32, epoch: u32, into: &mut Vec<u8>) {
        assert!((1..=KEY_SIZE_MAX).contains(&self.key.len()) && self.value.len() <= VALUE_SIZE_MAX, "sizes were checked");
        let (condition, expected) = match self.condition {
            Condition::None => (0, 0),
            Condition::Version(version) => (1, version),
            Condition::Absent => (2, 0),
        };
        let header = RawHeader {
            tag: U64::new(0),
            sequence: U64::new(0),
            commit_tag: U64::new(0),
            previous: U32::new(0),
            durable: U32::new(0),
            generation: U32::new(generation),
            epoch: U32::new(epoch),
            token: U64::new(self.token),
            value_size: U32::new(self.value.len() as u32),
            key_size: U16::new(self.key.len() as u16),
            kind: if self.kind == Kind::Put { 1 } else { 2 },
            condition,
            expected: U64::new(expected),
        };
        into.clear();
        into.extend_from_slice(header.as_bytes());
        into.extend_from_slice(self.key);
        into.extend_from_slice(self.value);
        let tag = tag(format, position, into);
        into[..8].copy_from_slice(&tag.to_le_bytes());
        into.resize(record_size(self.key.len(), self.value.len()) as usize, 0);
    }
}

/// The tag of a record without its padding. Seeded with the position, so that a record at another place does not check.
/// The multiplier is odd, so that different positions give different seeds.
#[inline]
fn tag(format: &LogFormat, position: u64, record: &[u8]) -> u64 {
    let seed = format.tag_key ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash::xxh3_64(seed, &record[TAGGED_FROM..])
}

/// Why bytes are no record of this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// Fewer bytes than the record needs.
    #[error("{found} bytes where the record has {expected}")]
    Short {
        /// How many there are.
        found: u64,
        /// How many it needs.
        expected: u64,
    },
    /// The sizes in the header are impossible.
    #[error("key of {key_size} and value of {value_size} bytes")]
    Sizes {
        /// Of the key.
        key_size: u16,
        /// Of the value.
        value_size: u32,
    },
    /// Kind or condition are unknown.
    #[error("kind {kind}, condition {condition}")]
    Kind {
        /// What stands for the kind.
        kind: u8,
        /// What stands for the condition.
        condition: u8,
    },
    /// The record is of another use of its segment.
    #[error("generation {found}, not {expected}")]
    Generation {
        /// The record's.
        found: u32,
        /// The segment's, or its low bits where only those are known.
        expected: u32,
    },
    /// The bytes are not those that were tagged for this place.
    #[error("tag {found:#018x}, computed {expected:#018x}")]
    Tag {
        /// What stands there.
        found: u64,
        /// What the bytes give.
        expected: u64,
    },
}

/// The first 64 bytes of what may be a record: sizes and kinds are possible, nothing else is known.
#[derive(Clone, Copy)]
pub struct RecordHeader(pub(crate) RawHeader);

impl RecordHeader {
    /// Takes a header that makes sense.
    #[inline]
    pub fn parse(bytes: &[u8; RECORD_HEADER_SIZE]) -> Result<Self, RecordFault> {
        let raw = RawHeader::read_from_bytes(bytes).expect("64 bytes are a header");
        let (key_size, value_size) = (raw.key_size.get(), raw.value_size.get());
        if !(1..=KEY_SIZE_MAX).contains(&usize::from(key_size)) || value_size as usize > VALUE_SIZE_MAX {
            return Err(RecordFault::Sizes { key_size, value_size });
        }
        if !matches!(raw.kind, 1 | 2) || raw.condition > 2 {
            return Err(RecordFault::Kind { kind: raw.kind, condition: raw.condition });
        }
        Ok(Self(raw))
    }

    /// Bytes of the record in the log, padding included.
    pub fn size(&self) -> u64 {
        record_size(self.key_size(), self.value_size())
    }

    /// Bytes of the key.
    pub fn key_size(&self) -> usize {
        self.0.key_size.get().into()
    }

    /// Bytes of the value.
    pub fn value_size(&self) -> usize {
        self.0.value_size.get() as usize
    }

    /// What the record does.
    pub fn kind(&self) -> Kind {
        if self.0.kind == 1 { Kind::Put } else { Kind::Delete }
    }

    /// On what it depended.
    pub fn condition(&self) -> Condition {
        match self.0.condition {
            0 => Condition::None,
            1 => Condition::Version(self.0.expected.get()),
            _ => Condition::Absent,
        }
    }

    /// Names the operation.
    pub fn token(&self) -> u64 {
        self.0.token.get()
    }

    /// Use of the segment.
    pub fn generation(&self) -> u32 {
        self.0.generation.get()
    }

    /// Run of the server.
    pub fn epoch(&self) -> u32 {
        self.0.epoch.get()
    }

    /// Commit sequence number; 0: not stamped.
    pub fn sequence(&self) -> u64 {
        self.0.sequence.get()
    }

    /// The tag that stands there.
    pub fn tag(&self) -> u64 {
        self.0.tag.get()
    }
}

/// A record that checked.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Its header.
    pub header: RecordHeader,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// Checks that `bytes` start with a whole record tagged for `position` in use `generation` of its segment.
pub fn check<'a>(format: &LogFormat, position: u64, generation: u32, bytes: &'a [u8]) -> Result<Record<'a>, RecordFault> {
    check_with(format, position, bytes, |found| (found == generation).then_some(()).ok_or(generation))
}

/// Like [`check`], for a reader that knows only the low 10 bits of the generation.
#[inline]
pub fn check_read<'a>(
    format: &LogFormat,
    position: u64,
    generation_low: u16,
    bytes: &'a [u8],
) -> Result<Record<'a>, RecordFault> {
    check_with(format, position, bytes, |found| {
        (found % 1024 == generation_low.into()).then_some(()).ok_or(generation_low.into())
    })
}

#[inline]
fn check_with<'a>(
    format: &LogFormat,
    position: u64,
    bytes: &'a [u8],
    generation: impl Fn(u32) -> Result<(), u32>,
) -> Result<Record<'a>, RecordFault> {
    let short = |expected: u64| RecordFault::Short { found: bytes.len() as u64, expected };
    let header = RecordHeader::parse(bytes.first_chunk().ok_or_else(|| short(RECORD_HEADER_SIZE as u64))?)?;
    generation(header.generation()).map_err(|expected| RecordFault::Generation { found: header.generation(), expected })?;
    let key_end = RECORD_HEADER_SIZE + header.key_size();
    let end = key_end + header.value_size();
    let record = bytes.get(..end).ok_or_else(|| short(end as u64))?;
    let expected = tag(format, position, record);
    if header.tag() != expected {
        return Err(RecordFault::Tag { found: header.tag(), expected });
    }
    Ok(Record { header, key: &record[RECORD_HEADER_SIZE..key_end], value: &record[key_end..] })
}
