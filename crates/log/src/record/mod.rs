//! Records: a key, a value, and a header that proves both.
//!
//! Bytes that come from the log or from a client are nothing but bytes until [`check`] has passed them. A
//! [`RecordHeader`] alone promises only that its lengths and codes are possible ones.
//!
//! The tag is no secret: whoever may read the pool can make one. It finds torn, stale and misplaced records, not forged
//! ones. Those a stamp tells apart; see [`crate::Stamp`].

mod reading;

use stonecast_base::mutant;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{LogFormat, UNIT_SIZE};
use crate::layout::layout;
use crate::stamp::Links;

pub use reading::{Reading, read_of_key};

/// Bytes that it takes to look at a header: the first unit of a record.
pub const RECORD_START_SIZE: usize = UNIT_SIZE as usize;
/// Bytes at the start of a record that its writer leaves to the server, which stamps it there.
pub const STAMP_SIZE: usize = std::mem::offset_of!(StartBytes, tag);
/// Bytes of the longest key. The shortest has one.
pub const KEY_SIZE_MAX: usize = 1024;
/// Bytes of the longest value.
pub const VALUE_SIZE_MAX: usize = 1 << 20;
/// The last generation that a segment may have: records say it in 30 bits.
pub const GENERATION_MAX: u32 = (1 << 30) - 1;

/// Bytes before the key where there is neither token nor moment.
const HEADER_SIZE_MIN: usize = std::mem::offset_of!(StartBytes, more);
/// Bytes before the key where there are both.
const HEADER_SIZE_MAX: usize = HEADER_SIZE_MIN + 16;
/// Where the tagged bytes start: what lies before is the stamp and the tag.
const TAGGED_FROM: usize = std::mem::offset_of!(StartBytes, facts);
/// Bits of the generation that an index word carries.
const GENERATION_LOW_MASK: u32 = (1 << 10) - 1;

layout! {
    /// The first unit of a record.
    StartBytes, FIELDS:
    sequence: U64, "server", "commit sequence number, from 1: the version of the key";
    commit_tag: U64, "server", "SipHash-2-4 under the pool's secret; see below";
    links: U64, "server", "previous, durable, epoch; see below";
    tag: U64, "writer", "XXH3-64 of bytes 32 to the end of the value; seed: the pool's tag key XOR ((position + epoch modulo 2^16 × 2^40) × 0x9e3779b97f4a7c15 mod 2^64)";
    facts: U64, "writer", "what, size of the key, rule, generation; see below";
    more: [u8; 24], "writer", "token (8 bytes) if the facts say so, moment (8 bytes) if they say so, key, value";
}

/// Bits of the facts, from the lowest: what the record does, size of its key less 1, whether it has a token, its rule, the
/// generation.
const WHAT_MASK: u64 = (1 << 21) - 1;
const KEY_SIZE_SHIFT: u32 = 21;
const KEY_SIZE_MASK: u64 = (1 << 10) - 1;
const HAS_TOKEN: u64 = 1 << 31;
const RULE_SHIFT: u32 = 32;
const RULE_MASK: u64 = 3;
const GENERATION_SHIFT: u32 = 34;

/// What a record does: codes from [`PUT_FROM`] on are puts of so many bytes more. 0 is none, so that zeros are no record.
const DELETE: u64 = 1;
const PUT_FROM: u64 = 2;

/// Rules. A record with another one than the first two has a moment, but for [`ABSENT`].
const ALWAYS: u64 = 0;
const VERSION: u64 = 1;
const ABSENT: u64 = 2;
const MOVED: u64 = 3;

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
        /// Bytes of the record, or of the shortest where it is not known how long this one is.
        needed: u64,
    },
    /// Nothing that is a record.
    #[error("no kind of record")]
    Kind,
    /// Names the operation by 0, which names none.
    #[error("a token of 0")]
    Token,
    /// A value that is too long.
    #[error("value of {0} bytes, expected at most {VALUE_SIZE_MAX}")]
    ValueSize(u32),
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
pub struct RecordHeader(StartBytes);

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

/// Bytes that a record takes in the log, in whole units: enough for all that any record of this key and value may have, so
/// that moving it takes no more.
#[inline]
pub const fn record_size(key_size: usize, value_size: usize) -> u64 {
    ((HEADER_SIZE_MAX + key_size + value_size) as u64).next_multiple_of(UNIT_SIZE)
}

/// What the facts of a record say, but for its sizes and whether it has a token.
struct Facts {
    kind: Kind,
    rule: u64,
    moment: u64,
    token: u64,
    generation: u32,
}

impl Facts {
    /// Replaces what `into` holds with the record, with zeros where its stamp will be. Returns its tag.
    fn encode(
        &self,
        format: &LogFormat,
        (position, epoch): (u64, u32),
        key: &[u8],
        value: &[u8],
        into: &mut Vec<u8>,
    ) -> u64 {
        assert!(
            self.generation <= GENERATION_MAX,
            "a segment is not used so often"
        );
        let what = match self.kind {
            Kind::Put => PUT_FROM + value.len() as u64,
            Kind::Delete => DELETE,
        };
        let facts = what
            | (key.len() as u64 - 1) << KEY_SIZE_SHIFT
            | if self.token == 0 { 0 } else { HAS_TOKEN }
            | self.rule << RULE_SHIFT
            | u64::from(self.generation) << GENERATION_SHIFT;
        into.clear();
        into.reserve(record_size(key.len(), value.len()) as usize);
        into.extend_from_slice(&[0; TAGGED_FROM]);
        into.extend_from_slice(&facts.to_le_bytes());
        if self.token != 0 {
            into.extend_from_slice(&self.token.to_le_bytes());
        }
        if has_moment(self.rule) {
            into.extend_from_slice(&self.moment.to_le_bytes());
        }
        into.extend_from_slice(key);
        into.extend_from_slice(value);
        let tag = format.tag(position, epoch, &into[TAGGED_FROM..]);
        into[STAMP_SIZE..TAGGED_FROM].copy_from_slice(&tag.to_le_bytes());
        tag
    }
}

#[inline]
const fn has_moment(rule: u64) -> bool {
    rule == VERSION || rule == MOVED
}

impl Draft<'_> {
    /// Writes the record as it must stand at `position`, up to the end of its value, and returns its tag. Replaces what `into`
    /// holds. The first [`STAMP_SIZE`] bytes are the server's and zero here: nobody writes them but with a stamp.
    ///
    /// The sizes must be within the limits: who takes keys and values from outside refuses others with a message.
    pub fn encode(
        &self,
        format: &LogFormat,
        position: u64,
        generation: u32,
        epoch: u32,
        into: &mut Vec<u8>,
    ) -> u64 {
        assert!(
            (1..=KEY_SIZE_MAX).contains(&self.key.len()),
            "a key of {} bytes is refused earlier",
            self.key.len()
        );
        assert!(
            self.value.len() <= VALUE_SIZE_MAX,
            "a value of {} bytes is refused earlier",
            self.value.len()
        );
        assert!(
            self.kind == Kind::Put || self.value.is_empty(),
            "a delete has no value"
        );
        let (rule, moment) = match self.condition {
            Condition::None => (ALWAYS, 0),
            Condition::Version(version) => (VERSION, version),
            Condition::Absent => (ABSENT, 0),
        };
        let facts = Facts {
            kind: self.kind,
            rule,
            moment,
            token: self.token,
            generation,
        };
        facts.encode(format, (position, epoch), self.key, self.value, into)
    }
}

/// Writes the record `found` as it must stand at another place, moved there when `next_sequence` was the next to be given
/// out, and returns its tag; see [`Draft::encode`]. Kind, token, key and value are the same; the condition was decided long
/// ago. It takes as many units as before.
pub fn relocate(
    format: &LogFormat,
    found: Record<'_>,
    (position, generation, epoch): (u64, u32, u32),
    next_sequence: u64,
    into: &mut Vec<u8>,
) -> u64 {
    let Record { header, key, value } = found;
    let facts = Facts {
        kind: header.kind(),
        rule: MOVED,
        moment: next_sequence,
        token: header.token(),
        generation,
    };
    facts.encode(format, (position, epoch), key, value, into)
}

impl RecordHeader {
    /// Looks at lengths and codes, and at nothing else.
    #[inline]
    pub fn parse(bytes: &[u8; RECORD_START_SIZE]) -> Result<Self, RecordFault> {
        let header = Self(StartBytes::read_from_bytes(bytes).expect("a header lies in a unit"));
        if header.what() == 0 {
            return Err(RecordFault::Kind);
        }
        if header.value_size() > VALUE_SIZE_MAX {
            return Err(RecordFault::ValueSize(header.value_size() as u32));
        }
        if header.has_token() && header.word(0) == 0 {
            return Err(RecordFault::Token);
        }
        Ok(header)
    }

    /// The header of bytes that may be fewer than a unit, but not fewer than the shortest record.
    #[inline]
    fn parse_prefix(bytes: &[u8]) -> Result<Self, RecordFault> {
        if let Some(start) = bytes.first_chunk() {
            return Self::parse(start);
        }
        let needed = HEADER_SIZE_MIN as u64 + 1;
        if (bytes.len() as u64) < needed {
            return Err(RecordFault::TooShort {
                size: bytes.len() as u64,
                needed,
            });
        }
        let mut start = [0; RECORD_START_SIZE];
        start[..bytes.len()].copy_from_slice(bytes);
        Self::parse(&start)
    }

    #[inline]
    fn facts(&self) -> u64 {
        self.0.facts.get()
    }

    #[inline]
    fn what(&self) -> u64 {
        self.facts() & WHAT_MASK
    }

    #[inline]
    fn rule(&self) -> u64 {
        self.facts() >> RULE_SHIFT & RULE_MASK
    }

    #[inline]
    fn has_token(&self) -> bool {
        self.facts() & HAS_TOKEN != 0
    }

    /// The first or second word behind the facts.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.0.more.as_chunks().0[index])
    }

    /// The word that the rule needs, if it does.
    #[inline]
    fn moment(&self) -> u64 {
        self.word(usize::from(self.has_token()))
    }

    /// Where the key starts: bytes of stamp and header.
    #[inline]
    pub fn key_start(&self) -> usize {
        HEADER_SIZE_MIN + 8 * (usize::from(self.has_token()) + usize::from(has_moment(self.rule())))
    }

    /// Bytes of the record up to the end of its value: what stands behind it in its last unit means nothing.
    #[inline]
    pub fn whole_size(&self) -> u64 {
        (self.key_start() + self.key_size() + self.value_size()) as u64
    }

    /// Bytes that the record takes in the log, in whole units.
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
        (self.facts() >> KEY_SIZE_SHIFT & KEY_SIZE_MASK) as usize + 1
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_size(&self) -> usize {
        self.what().saturating_sub(PUT_FROM) as usize
    }

    /// Put or delete.
    #[inline]
    pub fn kind(&self) -> Kind {
        if self.what() == DELETE {
            Kind::Delete
        } else {
            Kind::Put
        }
    }

    /// The sequence that was next when the record was moved here by the server; `None`: it was written here.
    #[inline]
    pub fn moved_at(&self) -> Option<u64> {
        (self.rule() == MOVED).then(|| self.moment())
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
        match self.rule() {
            VERSION => Condition::Version(self.moment()),
            ABSENT => Condition::Absent,
            _ => Condition::None,
        }
    }

    /// Names the operation; 0: none.
    #[inline]
    pub fn token(&self) -> u64 {
        if self.has_token() { self.word(0) } else { 0 }
    }

    /// Generation of the segment.
    #[inline]
    pub fn generation(&self) -> u32 {
        (self.facts() >> GENERATION_SHIFT) as u32
    }

    /// The tag as it stands there.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.0.tag.get()
    }

    /// Commit sequence number, the version of the key. Like all of the stamp it means nothing in a record that was not
    /// published, and is not covered by the tag.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.0.sequence.get()
    }

    /// The server's tag over the stamp.
    #[inline]
    pub fn commit_tag(&self) -> u64 {
        self.0.commit_tag.get()
    }

    /// The links as they stand in the stamp.
    #[inline]
    pub(crate) fn links(&self) -> Links {
        Links::from_word(self.0.links.get())
    }

    /// Unit of the stamped record before this one; 0: the first above the seal. Part of the stamp.
    #[inline]
    pub fn previous(&self) -> u32 {
        self.links().previous
    }

    /// Below this unit every stamped record was durable when this one was stamped. Part of the stamp.
    #[inline]
    pub fn durable(&self) -> u32 {
        self.links().durable
    }

    /// Low 16 bits of the epoch of the run in which the record was written and stamped. Part of the stamp; the tag fits no
    /// other one.
    #[inline]
    pub fn epoch(&self) -> u16 {
        self.links().epoch
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

/// Checks that `bytes` start with a whole record that was written in the run of this epoch and belongs at `position`, in a
/// segment of this generation. Neither its stamp nor what follows the value is looked at.
///
/// It does not check that the record fits its segment: staged records lie in none.
#[inline]
pub fn check<'a>(
    format: &LogFormat,
    position: u64,
    (generation, epoch): (u32, u32),
    bytes: &'a [u8],
) -> Result<Record<'a>, RecordFault> {
    let header = RecordHeader::parse_prefix(bytes)?;
    if header.generation() != generation {
        return Err(RecordFault::Generation {
            found: header.generation(),
            expected: generation,
        });
    }
    check_tag(format, position, epoch as u16, header, bytes)
}

/// [`check`] of a published record for readers, who know of the generation only the low 10 bits that an index word carries,
/// and the epoch from the stamp.
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
        return Err(RecordFault::Generation {
            found,
            expected: generation_low.into(),
        });
    }
    check_tag(format, position, header.epoch(), header, bytes)
}

#[inline]
pub(crate) fn check_tag<'a>(
    format: &LogFormat,
    position: u64,
    epoch: u16,
    header: RecordHeader,
    bytes: &'a [u8],
) -> Result<Record<'a>, RecordFault> {
    let record = untagged(header, bytes)?;
    let expected = format.tag(
        position,
        epoch.into(),
        &bytes[TAGGED_FROM..header.whole_size() as usize],
    );
    if header.tag() != expected {
        return Err(RecordFault::Tag {
            found: header.tag(),
            expected,
        });
    }
    Ok(record)
}

/// The record without a look at its tag.
#[inline]
pub(crate) fn untagged(header: RecordHeader, bytes: &[u8]) -> Result<Record<'_>, RecordFault> {
    let whole = bytes.get(..header.whole_size() as usize);
    let whole = whole.ok_or(RecordFault::TooShort {
        size: bytes.len() as u64,
        needed: header.whole_size(),
    })?;
    let (key, value) = whole[header.key_start()..].split_at(header.key_size());
    Ok(Record { header, key, value })
}

#[cfg(test)]
mod tests;
