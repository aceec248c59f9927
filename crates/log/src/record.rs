//! Records: a key, a value, and a header that proves both.
//!
//! Bytes that come from the log or from a client are nothing but bytes until [`check`] has passed them. A
//! [`RecordHeader`] alone promises only that its lengths and codes are possible ones.
//!
//! The tag is no secret: whoever may read the pool can make one. It finds torn, stale and misplaced records, not forged
//! ones. Those a stamp tells apart; see [`crate::Stamp`].

use stonecast_base::mutant;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{LogFormat, UNIT_SIZE};
use crate::layout::layout;

/// Bytes of a record before its key.
pub const RECORD_HEADER_SIZE: usize = 64;
/// Bytes of the longest key. The shortest has one.
pub const KEY_SIZE_MAX: usize = 1024;
/// Bytes of the longest value.
pub const VALUE_SIZE_MAX: usize = 1 << 20;

/// Bits of the generation that an index word carries.
const GENERATION_LOW_MASK: u32 = (1 << 10) - 1;
/// Where the tagged bytes start: what lies before is the tag and the stamp.
const TAGGED_FROM: usize = std::mem::offset_of!(HeaderBytes, generation);

layout! {
    /// The first line of a record.
    HeaderBytes, FIELDS:
    tag: U64, "writer", "XXH3-64 of bytes 32 to the end of the value; seed: the pool's tag key XOR (position × 0x9e3779b97f4a7c15 mod 2^64)";
    sequence: U64, "server", "commit sequence number, from 1: the version of the key; 0: not published";
    commit_tag: U64, "server", "SipHash-2-4 under the pool's secret; see below";
    previous: U32, "server", "unit of the stamped record before this one in the segment; 0: the first above the seal";
    durable: U32, "server", "every record stamped in this segment below this unit was durable when this one was stamped";
    generation: U32, "writer", "generation of the segment";
    epoch: U32, "writer", "epoch of the server's run";
    token: U64, "writer", "names the operation, for retries; 0: none";
    value_size: U32, "writer", "bytes, at most 2^20; 0 for a delete";
    key_size: U16, "writer", "bytes, 1 to 1024";
    kind: u8, "writer", "1 put, 2 delete, 3 put that was moved, 4 delete that was moved";
    condition: u8, "writer", "0 none, 1 the key's version is `expected`, 2 the key is absent";
    expected: U64, "writer", "condition 1: the version; kinds 3 and 4: the sequence that was next when the record was moved; else 0";
}

/// Codes of the kinds.
const PUT: u8 = 1;
const DELETE: u8 = 2;
const MOVED_PUT: u8 = 3;
const MOVED_DELETE: u8 = 4;

/// What a record does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Gives it a value.
    Put,
    /// Takes it away: a tombstone.
    Delete,
}

/// What must hold of the key for a record to take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    None,
    /// Its version is this one.
    Version(u64),
    /// It is absent.
    Absent,
}

/// Why bytes are not the record that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// There are fewer bytes than the record has.
    #[error("{size} bytes of a record of {needed}")]
    TooShort {
        /// Bytes at hand.
        size: u64,
        /// Bytes of the record, with its padding where the header says how long it is.
        needed: u64,
    },
    /// No such kind.
    #[error("record kind {0}, expected 1 to 4")]
    Kind(u8),
    /// No such condition.
    #[error("record condition {0}, expected 0 to 2")]
    Condition(u8),
    /// A version where none is expected.
    #[error("expected version {0} without the condition that compares it")]
    Expected(u64),
    /// No key, or one that is too long.
    #[error("key of {0} bytes, expected 1 to {KEY_SIZE_MAX}")]
    KeySize(u16),
    /// A value that is too long, or one in a delete.
    #[error("value of {found} bytes, expected at most {limit}")]
    ValueSize {
        /// Its length.
        found: u32,
        /// The longest for this kind of record.
        limit: u32,
    },
    /// The record is of another use of the segment.
    #[error("record of generation {found}, expected {expected}")]
    Generation {
        /// What stands there; whole, or its low bits where only those are known.
        found: u32,
        /// What should.
        expected: u32,
    },
    /// Torn, damaged or misplaced.
    #[error("record tag {found:#018x}, expected {expected:#018x}")]
    Tag {
        /// What stands there.
        found: u64,
        /// The tag of these bytes at this position.
        expected: u64,
    },
}

/// The header of what may be a record: lengths and codes are possible ones, nothing else is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader(HeaderBytes);

/// A record whose tag was checked. Whether it was published, its stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its header.
    pub header: RecordHeader,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// A record to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draft<'a> {
    /// Put or delete.
    pub kind: Kind,
    /// When it takes effect.
    pub condition: Condition,
    /// Names the operation; 0: nobody will ask for it again.
    pub token: u64,
    /// 1 to [`KEY_SIZE_MAX`] bytes.
    pub key: &'a [u8],
    /// At most [`VALUE_SIZE_MAX`] bytes; none for a delete.
    pub value: &'a [u8],
}

/// Bytes that a record takes in the log.
#[inline]
pub const fn record_size(key_size: usize, value_size: usize) -> u64 {
    ((RECORD_HEADER_SIZE + key_size + value_size) as u64).next_multiple_of(UNIT_SIZE)
}

impl Draft<'_> {
    /// Writes the whole record, padded and without a stamp, as it must stand at `position`. Replaces what `into` holds.
    ///
    /// The sizes must be within the limits: who takes keys and values from outside refuses others with a message.
    pub fn encode(&self, format: &LogFormat, position: u64, generation: u32, epoch: u32, into: &mut Vec<u8>) {
        assert!((1..=KEY_SIZE_MAX).contains(&self.key.len()), "a key of {} bytes is refused earlier", self.key.len());
        assert!(self.value.len() <= VALUE_SIZE_MAX, "a value of {} bytes is refused earlier", self.value.len());
        assert!(self.kind == Kind::Put || self.value.is_empty(), "a delete has no value");
        let (condition, expected) = match self.condition {
            Condition::None => (0, 0),
            Condition::Version(version) => (1, version),
            Condition::Absent => (2, 0),
        };
        let kind = match self.kind {
            Kind::Put => PUT,
            Kind::Delete => DELETE,
        };
        let header = HeaderBytes {
            tag: U64::ZERO,
            sequence: U64::ZERO,
            commit_tag: U64::ZERO,
            previous: U32::ZERO,
            durable: U32::ZERO,
            generation: U32::new(generation),
            epoch: U32::new(epoch),
            token: U64::new(self.token),
            value_size: U32::new(self.value.len() as u32),
            key_size: U16::new(self.key.len() as u16),
            kind,
            condition,
            expected: U64::new(expected),
        };
        assemble(format, position, &header, (self.key, self.value), into);
    }
}

/// Puts a record together as it must stand at `position`: header, key, value, their tag, padding. Replaces what `into` holds.
fn assemble(format: &LogFormat, position: u64, header: &HeaderBytes, (key, value): (&[u8], &[u8]), into: &mut Vec<u8>) {
    let size = record_size(key.len(), value.len()) as usize;
    into.clear();
    into.reserve(size);
    into.extend_from_slice(header.as_bytes());
    into.extend_from_slice(key);
    into.extend_from_slice(value);
    let tag = format.tag(position, &into[TAGGED_FROM..]);
    into[..8].copy_from_slice(&tag.to_le_bytes());
    into.resize(size, 0);
}

/// Writes the record `found` as it must stand at another place, moved there when `next_sequence` was the next to be given
/// out; without a stamp, padded. Kind, token, key and value are the same; the condition was decided long ago.
/// Replaces what `into` holds.
pub fn relocate(
    format: &LogFormat,
    found: Record<'_>,
    (position, generation, epoch): (u64, u32, u32),
    next_sequence: u64,
    into: &mut Vec<u8>,
) {
    let Record { header, key, value } = found;
    let kind = match header.kind() {
        Kind::Put => MOVED_PUT,
        Kind::Delete => MOVED_DELETE,
    };
    let header = HeaderBytes {
        tag: U64::ZERO,
        sequence: U64::ZERO,
        commit_tag: U64::ZERO,
        previous: U32::ZERO,
        durable: U32::ZERO,
        generation: U32::new(generation),
        epoch: U32::new(epoch),
        kind,
        condition: 0,
        expected: U64::new(next_sequence),
        ..header.0
    };
    assemble(format, position, &header, (key, value), into);
}

impl RecordHeader {
    /// Looks at lengths and codes, and at nothing else.
    #[inline]
    pub fn parse(bytes: &[u8; RECORD_HEADER_SIZE]) -> Result<Self, RecordFault> {
        let header = HeaderBytes::read_from_bytes(bytes).expect("a header has 64 bytes");
        let value_size_max = match header.kind {
            PUT | MOVED_PUT => VALUE_SIZE_MAX as u32,
            DELETE | MOVED_DELETE => 0,
            other => return Err(RecordFault::Kind(other)),
        };
        let moved = matches!(header.kind, MOVED_PUT | MOVED_DELETE);
        if header.condition > 2 || moved && header.condition != 0 {
            return Err(RecordFault::Condition(header.condition));
        }
        if header.condition != 1 && !moved && header.expected.get() != 0 {
            return Err(RecordFault::Expected(header.expected.get()));
        }
        if header.key_size.get() == 0 || usize::from(header.key_size.get()) > KEY_SIZE_MAX {
            return Err(RecordFault::KeySize(header.key_size.get()));
        }
        if header.value_size.get() > value_size_max {
            return Err(RecordFault::ValueSize { found: header.value_size.get(), limit: value_size_max });
        }
        Ok(Self(header))
    }

    #[inline]
    fn parse_prefix(bytes: &[u8]) -> Result<Self, RecordFault> {
        let needed = RECORD_HEADER_SIZE as u64;
        Self::parse(bytes.first_chunk().ok_or(RecordFault::TooShort { size: bytes.len() as u64, needed })?)
    }

    /// Bytes that the record takes in the log, with its padding.
    #[inline]
    pub fn size(&self) -> u64 {
        record_size(self.key_size(), self.value_size())
    }

    /// Units that the record takes.
    #[inline]
    pub(crate) fn size_units(&self) -> u32 {
        (self.size() / UNIT_SIZE) as u32
    }

    /// Bytes of the key.
    #[inline]
    pub fn key_size(&self) -> usize {
        self.0.key_size.get().into()
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_size(&self) -> usize {
        self.0.value_size.get() as usize
    }

    /// Put or delete.
    #[inline]
    pub fn kind(&self) -> Kind {
        if matches!(self.0.kind, PUT | MOVED_PUT) { Kind::Put } else { Kind::Delete }
    }

    /// The sequence that was next when the record was moved here by the server; `None`: it was written here.
    #[inline]
    pub fn moved_at(&self) -> Option<u64> {
        matches!(self.0.kind, MOVED_PUT | MOVED_DELETE).then(|| self.0.expected.get())
    }

    /// When the record came to this place, on the clock of the commits: its sequence, or the one that was next when it was
    /// moved.
    #[inline]
    pub fn written_at(&self) -> u64 {
        self.moved_at().unwrap_or(self.sequence())
    }

    /// When the record was to take effect.
    #[inline]
    pub fn condition(&self) -> Condition {
        match self.0.condition {
            0 => Condition::None,
            1 => Condition::Version(self.0.expected.get()),
            _ => Condition::Absent,
        }
    }

    /// Names the operation; 0: none.
    #[inline]
    pub fn token(&self) -> u64 {
        self.0.token.get()
    }

    /// Generation of the segment.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.0.generation.get()
    }

    /// Epoch of the server's run.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.0.epoch.get()
    }

    /// The tag as it stands there.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.0.tag.get()
    }

    /// Commit sequence number, the version of the key; 0: not published. Not covered by the tag.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.0.sequence.get()
    }

    /// The server's tag over the stamp.
    #[inline]
    pub fn commit_tag(&self) -> u64 {
        self.0.commit_tag.get()
    }

    /// Unit of the stamped record before this one; 0: the first above the seal. Part of the stamp.
    #[inline]
    pub fn previous(&self) -> u32 {
        self.0.previous.get()
    }

    /// Below this unit every stamped record was durable when this one was stamped. Part of the stamp.
    #[inline]
    pub fn durable(&self) -> u32 {
        self.0.durable.get()
    }
}

impl std::fmt::Debug for RecordHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordHeader")
            .field("kind", &self.kind())
            .field("condition", &self.condition())
            .field("key_size", &self.key_size())
            .field("value_size", &self.value_size())
            .field("token", &self.token())
            .field("generation", &self.generation())
            .field("epoch", &self.epoch())
            .field("tag", &format_args!("{:#018x}", self.tag()))
            .field("sequence", &self.sequence())
            .field("previous", &self.previous())
            .field("durable", &self.durable())
            .finish_non_exhaustive()
    }
}

/// Checks that `bytes` start with a whole record that belongs at `position`, in a segment of this generation. What
/// follows the value is not looked at.
///
/// It does not check that the record fits its segment: staged records lie in none.
#[inline]
pub fn check<'a>(format: &LogFormat, position: u64, generation: u32, bytes: &'a [u8]) -> Result<Record<'a>, RecordFault> {
    let header = RecordHeader::parse_prefix(bytes)?;
    if header.generation() != generation {
        return Err(RecordFault::Generation { found: header.generation(), expected: generation });
    }
    check_tag(format, position, header, bytes)
}

/// [`check`] for readers, who know of the generation only the low 10 bits that an index word carries.
#[inline]
pub fn check_read<'a>(
    format: &LogFormat,
    position: u64,
    generation_low: u16,
    bytes: &'a [u8],
) -> Result<Record<'a>, RecordFault> {
    let header = RecordHeader::parse_prefix(bytes)?;
    if mutant!(TagNotCheckedByReader) {
        return untagged(header, bytes);
    }
    let found = header.generation() & GENERATION_LOW_MASK;
    if found != u32::from(generation_low) {
        return Err(RecordFault::Generation { found, expected: generation_low.into() });
    }
    check_tag(format, position, header, bytes)
}

#[inline]
pub(crate) fn check_tag<'a>(
    format: &LogFormat,
    position: u64,
    header: RecordHeader,
    bytes: &'a [u8],
) -> Result<Record<'a>, RecordFault> {
    let value_start = RECORD_HEADER_SIZE + header.key_size();
    let Some(whole) = bytes.get(..value_start + header.value_size()) else {
        return Err(RecordFault::TooShort { size: bytes.len() as u64, needed: header.size() });
    };
    let expected = format.tag(position, &whole[TAGGED_FROM..]);
    if header.tag() != expected {
        return Err(RecordFault::Tag { found: header.tag(), expected });
    }
    Ok(Record { header, key: &whole[RECORD_HEADER_SIZE..value_start], value: &whole[value_start..] })
}

/// The record without a look at its tag: for mutants.
pub(crate) fn untagged(header: RecordHeader, bytes: &[u8]) -> Result<Record<'_>, RecordFault> {
    let value_start = RECORD_HEADER_SIZE + header.key_size();
    let whole = bytes.get(..value_start + header.value_size());
    let whole = whole.ok_or(RecordFault::TooShort { size: bytes.len() as u64, needed: header.size() })?;
    Ok(Record { header, key: &whole[RECORD_HEADER_SIZE..value_start], value: &whole[value_start..] })
}

#[cfg(test)]
mod tests;
