//! Records: a key, a value, and a header that proves both.
//!
//! Bytes from the log or from a client are untrusted until [`check`] has passed them. A
//! [`RecordHeader`] alone promises only possible lengths and codes.
//!
//! The tag is no secret: any reader of the pool can make one. A tag detects torn, stale and misplaced records, but not
//! forged records. A stamp detects forged records; see [`crate::Stamp`].

mod batch;
mod batch_body;
mod body;
mod expiry;
mod reading;

use stonecast_base::mutant;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{LogFormat, UNIT_SIZE};
use crate::layout::layout;
use crate::stamp::Links;

pub use batch::BatchPlace;
pub use batch_body::{batch_body, batch_body_size, is_batch_body};
pub use body::{BodyFault, RECORD_BODY_SIZE_MAX, RecordBody};
pub use expiry::{Expiry, NoMoment};
pub use reading::{Reading, read_of_key};

/// Bytes needed to read a header: the first unit of a record.
pub const RECORD_START_SIZE: usize = UNIT_SIZE as usize;
/// Bytes at the start of a record that its writer leaves to the server for the stamp.
pub const STAMP_SIZE: usize = std::mem::offset_of!(StartBytes, tag);
/// Bytes of the longest key. The shortest has one.
pub const KEY_SIZE_MAX: usize = 1024;
/// Bytes of the longest value that one record holds.
pub const VALUE_SIZE_MAX: usize = 1 << 20;
/// Bytes of the value of a record that names chunks.
pub const HEAD_SIZE: usize = 24;
/// Bytes of the longest chunk of a value.
pub const CHUNK_SIZE_MAX: usize = VALUE_SIZE_MAX - 4096;
/// The last generation of a segment: records store it in 29 bits.
pub const GENERATION_MAX: u32 = (1 << 29) - 1;

/// Bytes before the key of a record with neither token nor moment.
const HEADER_SIZE_MIN: usize = std::mem::offset_of!(StartBytes, more);
/// Bytes before the key of a record with both, and no expiry.
const HEADER_SIZE_MAX: usize = HEADER_SIZE_MIN + 16;
/// Bytes that an expiry takes.
const EXPIRY_SIZE: usize = 8;
/// Start of the tagged bytes, after the stamp and the tag.
const TAGGED_FROM: usize = std::mem::offset_of!(StartBytes, facts);
/// Bits of the generation that an index word carries.
const GENERATION_LOW_MASK: u32 = (1 << 10) - 1;

layout! {
    /// The first unit of a record.
    StartBytes, FIELDS:
    sequence: U64, "server", "commit sequence number, from 1: the version of the key";
    commit_tag: U64, "server", "SipHash-2-4 under the pool's secret; see below";
    links: U64, "server", "previous, durable, opening; see below";
    tag: U64, "writer", "XXH3-64 of bytes 32 to the end of the value; seed: the pool's tag key XOR ((position + opening modulo 2^16 × 2^40) × 0x9e3779b97f4a7c15 mod 2^64)";
    facts: U64, "writer", "what, size of the key, rule, generation, whether there is an expiry; see below";
    more: [u8; 24], "writer", "token (8 bytes) if the facts say so, moment (8 bytes) if they say so, expiry (8 bytes) if they say so, key, value";
}

/// Bits of the facts, from the lowest: what the record does, size of its key less 1, whether it has a token, its rule,
/// the generation, whether it has an expiry.
const WHAT_MASK: u64 = (1 << 21) - 1;
const KEY_SIZE_SHIFT: u32 = 21;
const KEY_SIZE_MASK: u64 = (1 << 10) - 1;
const HAS_TOKEN: u64 = 1 << 31;
const RULE_SHIFT: u32 = 32;
const RULE_MASK: u64 = 3;
const GENERATION_SHIFT: u32 = 34;
const HAS_EXPIRY: u64 = 1 << 63;

/// Effect of a record: codes from [`PUT_FROM`] on are puts whose value has that many bytes more. [`HEAD`] is a put that
/// names chunks, and codes from [`CHUNK_FROM`] on are chunks of that many bytes more. 0 is no code, so zeros are not a
/// record.
const DELETE: u64 = 1;
const PUT_FROM: u64 = 2;
const HEAD: u64 = PUT_FROM + VALUE_SIZE_MAX as u64 + 1;
const CHUNK_FROM: u64 = HEAD + 1;
/// The last code.
const WHAT_MAX: u64 = CHUNK_FROM + CHUNK_SIZE_MAX as u64;
const _: () = assert!(WHAT_MAX <= WHAT_MASK);

/// Rules. A record has a moment unless its rule is [`ALWAYS`] or [`ABSENT`].
const ALWAYS: u64 = 0;
const VERSION: u64 = 1;
const ABSENT: u64 = 2;
const MOVED: u64 = 3;

/// The effect of a record on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Gives the key a value.
    Put,
    /// Removes the key: a tombstone.
    Delete,
}

/// The part of a value that a put holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The value itself.
    #[default]
    Whole,
    /// The names of the chunks that make up the value.
    Head,
    /// A chunk of a value, under a key that no user has.
    Chunk,
}

/// The condition on the key under which a record takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    None,
    /// The key has this version.
    Version(u64),
    /// The key is absent.
    Absent,
}

impl Condition {
    /// Whether the condition holds for a key whose version is `present`; `None`: the key is absent.
    ///
    /// ```
    /// # use stonecast_log::Condition;
    /// assert!(Condition::Version(3).holds(Some(3)));
    /// assert!(!Condition::Absent.holds(Some(3)));
    /// ```
    pub fn holds(self, present: Option<u64>) -> bool {
        match self {
            Self::None => true,
            Self::Version(version) => present == Some(version),
            Self::Absent => present.is_none(),
        }
    }
}

/// The reason why bytes are not the expected record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// The record has more bytes than there are.
    #[error("{size} bytes of a record of {needed}")]
    TooShort {
        /// Bytes at hand.
        size: u64,
        /// Bytes of the record, or of the shortest record where the length is unknown.
        needed: u64,
    },
    /// The code is that of no record.
    #[error("no kind of record")]
    Kind,
    /// The token is 0, which names no operation.
    #[error("a token of 0")]
    Token,
    /// The expiry is 0, which is no moment.
    #[error("an expiry that no record has")]
    Expiry,
    /// The chunk of a value is too long.
    #[error("a chunk of {0} bytes, expected at most {CHUNK_SIZE_MAX}")]
    ValueSize(u32),
    /// The record belongs to another use of the segment.
    #[error("record of generation {found}, expected {expected}")]
    Generation {
        /// The generation found; whole, or its low bits where only those are known.
        found: u32,
        /// The generation expected.
        expected: u32,
    },
    /// The record is torn, damaged or misplaced.
    #[error("record tag {found:#018x}, expected {expected:#018x}")]
    Tag {
        /// The tag found.
        found: u64,
        /// The tag of these bytes at this position.
        expected: u64,
    },
}

/// The header of a possible record: lengths and codes are possible, and nothing else is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader(StartBytes);

/// A record whose tag was checked. Its stamp says whether it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The header.
    pub header: RecordHeader,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// A record to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draft<'a> {
    /// Put or delete.
    pub kind: Kind,
    /// The part of a value that a put holds; [`Form::Whole`] for a delete.
    pub form: Form,
    /// The condition under which it takes effect.
    pub condition: Condition,
    /// Names the operation; 0: the operation is never retried.
    pub token: u64,
    /// For a put, the moment from which on the key is absent. A delete with a moment is a *time mark*; see
    /// [`RecordHeader::time_mark`].
    pub expires: Option<Expiry>,
    /// 1 to [`KEY_SIZE_MAX`] bytes.
    pub key: &'a [u8],
    /// At most [`VALUE_SIZE_MAX`] bytes; [`HEAD_SIZE`] bytes of a head, and at most [`CHUNK_SIZE_MAX`] of a chunk; none
    /// for a delete.
    pub value: &'a [u8],
}

/// Bytes that a record without an expiry takes in the log, in whole units: enough for the longest form of such a record
/// of this key and value, so that moving it takes no more.
#[inline]
pub const fn record_size(key_size: usize, value_size: usize) -> u64 {
    ((HEADER_SIZE_MAX + key_size + value_size) as u64).next_multiple_of(UNIT_SIZE)
}

/// [`record_size`] of a record with the expiry `expires`.
#[inline]
pub const fn record_size_until(key_size: usize, value_size: usize, expires: Option<Expiry>) -> u64 {
    match expires {
        Some(_) => record_size(key_size, EXPIRY_SIZE + value_size),
        None => record_size(key_size, value_size),
    }
}

/// The facts of a record, without its sizes and whether it has a token.
struct Facts {
    kind: Kind,
    form: Form,
    rule: u64,
    moment: u64,
    token: u64,
    expires: Option<Expiry>,
    generation: u32,
}

impl Facts {
    /// Replaces the content of `into` with the record, with zeros in place of the stamp. Returns
    /// the record's tag.
    fn encode(
        &self,
        format: &LogFormat,
        (position, opening): (u64, u32),
        key: &[u8],
        value: &[u8],
        into: &mut Vec<u8>,
    ) -> u64 {
        into.clear();
        into.reserve(record_size_until(key.len(), value.len(), self.expires) as usize);
        into.extend_from_slice(&[0; TAGGED_FROM]);
        self.write(key, value, into);
        let tag = format.tag(position, opening, &into[TAGGED_FROM..]);
        into[STAMP_SIZE..TAGGED_FROM].copy_from_slice(&tag.to_le_bytes());
        tag
    }

    /// Appends the tagged bytes: from the facts to the end of the value.
    fn write(&self, key: &[u8], value: &[u8], into: &mut Vec<u8>) {
        assert!(
            self.generation <= GENERATION_MAX,
            "no segment is used that often"
        );
        let what = match (self.kind, self.form) {
            (Kind::Put, Form::Whole) => PUT_FROM + value.len() as u64,
            (Kind::Put, Form::Head) => HEAD,
            (Kind::Put, Form::Chunk) => CHUNK_FROM + value.len() as u64,
            (Kind::Delete, _) => DELETE,
        };
        let facts = what
            | (key.len() as u64 - 1) << KEY_SIZE_SHIFT
            | if self.token == 0 { 0 } else { HAS_TOKEN }
            | self.rule << RULE_SHIFT
            | u64::from(self.generation) << GENERATION_SHIFT
            | if self.expires.is_none() {
                0
            } else {
                HAS_EXPIRY
            };
        into.extend_from_slice(&facts.to_le_bytes());
        if self.token != 0 {
            into.extend_from_slice(&self.token.to_le_bytes());
        }
        if has_moment(self.rule) {
            into.extend_from_slice(&self.moment.to_le_bytes());
        }
        if let Some(expires) = self.expires {
            into.extend_from_slice(&expires.ms().to_le_bytes());
        }
        into.extend_from_slice(key);
        into.extend_from_slice(value);
    }
}

#[inline]
const fn has_moment(rule: u64) -> bool {
    rule == VERSION || rule == MOVED
}

impl Draft<'_> {
    /// Encodes the record for `position`, up to the end of its value, and returns its tag. Replaces
    /// the content of `into`. The first [`STAMP_SIZE`] bytes belong to the server and are zero
    /// here: they are written only with a stamp.
    ///
    /// The sizes must be within the limits: code that takes keys and values from outside refuses
    /// longer ones with a message.
    pub fn encode(
        &self,
        format: &LogFormat,
        position: u64,
        generation: u32,
        opening: u32,
        into: &mut Vec<u8>,
    ) -> u64 {
        assert!(
            (1..=KEY_SIZE_MAX).contains(&self.key.len()),
            "a key of {} bytes is refused earlier",
            self.key.len()
        );
        let fits = match self.form {
            Form::Whole => self.value.len() <= VALUE_SIZE_MAX,
            Form::Head => self.value.len() == HEAD_SIZE,
            Form::Chunk => self.value.len() <= CHUNK_SIZE_MAX,
        };
        assert!(
            fits,
            "a value of {} bytes is refused earlier",
            self.value.len()
        );
        assert!(
            self.kind == Kind::Put || self.value.is_empty(),
            "a delete has no value"
        );
        let facts = self.facts(generation);
        facts.encode(format, (position, opening), self.key, self.value, into)
    }

    fn facts(&self, generation: u32) -> Facts {
        let (rule, moment) = match self.condition {
            Condition::None => (ALWAYS, 0),
            Condition::Version(version) => (VERSION, version),
            Condition::Absent => (ABSENT, 0),
        };
        Facts {
            kind: self.kind,
            form: self.form,
            rule,
            moment,
            token: self.token,
            expires: self.expires,
            generation,
        }
    }

    /// Bytes that the record takes in the log, in whole units.
    #[inline]
    pub const fn size(&self) -> u64 {
        record_size_until(self.key.len(), self.value.len(), self.expires)
    }
}

/// Encodes the record `found` for another place, to which it is moved when `next_sequence` is the
/// next sequence to be given out, and returns its tag; see [`Draft::encode`]. Kind, token, expiry, key
/// and value stay the same; the condition was decided long ago. The record takes the same number of
/// units.
pub fn relocate(
    format: &LogFormat,
    found: Record<'_>,
    (position, generation, opening): (u64, u32, u32),
    next_sequence: u64,
    into: &mut Vec<u8>,
) -> u64 {
    let Record { header, key, value } = found;
    let (rule, moment) = match header.batch() {
        Some(_) if mutant!(MovedKeepsPlace) => (VERSION, header.moment()),
        _ => (MOVED, next_sequence),
    };
    let facts = Facts {
        kind: header.kind(),
        form: header.form(),
        rule,
        moment,
        token: header.token(),
        expires: header.moment_behind(),
        generation,
    };
    facts.encode(format, (position, opening), key, value, into)
}

/// [`relocate`] of a put whose expiry has come: the copy is a tombstone of the same version, without value and expiry.
pub fn bury(
    format: &LogFormat,
    found: Record<'_>,
    (position, generation, opening): (u64, u32, u32),
    next_sequence: u64,
    into: &mut Vec<u8>,
) -> u64 {
    let Record { header, key, .. } = found;
    let facts = Facts {
        kind: Kind::Delete,
        form: Form::Whole,
        rule: MOVED,
        moment: next_sequence,
        token: header.token(),
        expires: None,
        generation,
    };
    facts.encode(format, (position, opening), key, &[], into)
}

/// Binds a record that [`check`] has passed at one place to another place, and returns its tag there: apart from the
/// stamp, `record` becomes what [`Draft::encode`] makes of it there.
#[inline]
pub fn rebind(
    format: &LogFormat,
    record: &mut [u8],
    (position, generation, opening): (u64, u32, u32),
) -> u64 {
    assert!(
        generation <= GENERATION_MAX,
        "no segment is used that often"
    );
    let facts = record[TAGGED_FROM..].first_chunk_mut();
    let facts: &mut [u8; 8] = facts.expect("a checked record has its facts");
    let others = u64::from_le_bytes(*facts) & !(u64::from(GENERATION_MAX) << GENERATION_SHIFT);
    *facts = (others | u64::from(generation) << GENERATION_SHIFT).to_le_bytes();
    let tag = format.tag(position, opening, &record[TAGGED_FROM..]);
    record[STAMP_SIZE..TAGGED_FROM].copy_from_slice(&tag.to_le_bytes());
    tag
}

impl RecordHeader {
    /// Checks lengths and codes, and nothing else.
    #[inline]
    pub fn parse(bytes: &[u8; RECORD_START_SIZE]) -> Result<Self, RecordFault> {
        let header = Self(zerocopy::transmute!(*bytes));
        if header.what() == 0 {
            return Err(RecordFault::Kind);
        }
        if header.what() > WHAT_MAX {
            return Err(RecordFault::ValueSize((header.what() - CHUNK_FROM) as u32));
        }
        if header.has_token() && header.word(0) == 0 {
            return Err(RecordFault::Token);
        }
        if header.has_expiry() && header.moment_behind().is_none() {
            return Err(RecordFault::Expiry);
        }
        Ok(header)
    }

    /// Parses the header from bytes that may be fewer than a unit, but not fewer than the shortest
    /// record.
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

    #[inline]
    fn has_expiry(&self) -> bool {
        self.facts() & HAS_EXPIRY != 0
    }

    /// One of the three words after the facts.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.0.more.as_chunks().0[index])
    }

    /// The word that the rule needs, if it does.
    #[inline]
    fn moment(&self) -> u64 {
        self.word(usize::from(self.has_token()))
    }

    /// Start of the key: bytes of stamp and header.
    #[inline]
    pub fn key_start(&self) -> usize {
        self.words_size() + EXPIRY_SIZE * usize::from(self.has_expiry())
    }

    /// Bytes before the expiry, or before the place where it would be.
    #[inline]
    fn words_size(&self) -> usize {
        HEADER_SIZE_MIN + 8 * (usize::from(self.has_token()) + usize::from(has_moment(self.rule())))
    }

    /// The moment from which on the key of a put is absent.
    #[inline]
    pub fn expires(&self) -> Option<Expiry> {
        self.moment_behind().filter(|_| self.kind() == Kind::Put)
    }

    /// The time mark that a delete carries: the time of the shard of its key does not exceed the mark before a later
    /// mark comes. Such a delete removes nothing, since it is stamped for a key that is absent, and no older record
    /// needs it.
    #[inline]
    pub fn time_mark(&self) -> Option<Expiry> {
        self.moment_behind().filter(|_| self.kind() == Kind::Delete)
    }

    /// The moment behind the words of the header, if the facts say that there is one.
    #[inline]
    fn moment_behind(&self) -> Option<Expiry> {
        let word = (self.words_size() - HEADER_SIZE_MIN) / 8;
        self.has_expiry()
            .then(|| Expiry::at_ms(self.word(word)))
            .flatten()
    }

    /// Bytes of the record up to the end of its value: the bytes after it in its last unit mean
    /// nothing.
    #[inline]
    pub fn whole_size(&self) -> u64 {
        (self.key_start() + self.key_size() + self.value_size()) as u64
    }

    /// Bytes that the record takes in the log, in whole units.
    #[inline]
    pub fn size(&self) -> u64 {
        let expiry = EXPIRY_SIZE * usize::from(self.has_expiry());
        record_size(self.key_size(), self.value_size() + expiry)
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

    /// Bytes of the value, of the head, or of the chunk.
    #[inline]
    pub fn value_size(&self) -> usize {
        match self.what() {
            what @ ..HEAD => what.saturating_sub(PUT_FROM) as usize,
            HEAD => HEAD_SIZE,
            what => (what - CHUNK_FROM) as usize,
        }
    }

    /// The part of a value that a put holds; [`Form::Whole`] for a delete.
    #[inline]
    pub fn form(&self) -> Form {
        match self.what() {
            ..HEAD => Form::Whole,
            HEAD => Form::Head,
            _ => Form::Chunk,
        }
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

    /// The sequence that was next when the server moved the record here; `None`: it was written
    /// here.
    #[inline]
    pub fn moved_at(&self) -> Option<u64> {
        (self.rule() == MOVED).then(|| self.moment())
    }

    /// When the record arrived at this place, on the clock of the commits: its sequence, or the one
    /// that was next when it was moved.
    #[inline]
    pub fn written_at(&self) -> u64 {
        self.moved_at().unwrap_or(self.sequence())
    }

    /// The condition under which the record was to take effect.
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
        (self.facts() >> GENERATION_SHIFT) as u32 & GENERATION_MAX
    }

    /// The tag stored in the header.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.0.tag.get()
    }

    /// Commit sequence number, the version of the key. Like the whole stamp it means nothing in an
    /// unpublished record, and the tag does not cover it.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.0.sequence.get()
    }

    /// The server's tag over the stamp.
    #[inline]
    pub fn commit_tag(&self) -> u64 {
        self.0.commit_tag.get()
    }

    /// The links stored in the stamp.
    #[inline]
    pub(crate) fn links(&self) -> Links {
        Links::from_word(self.0.links.get())
    }

    /// Unit of the previous stamped record; 0: this record is the first above the seal. Part of the stamp.
    #[inline]
    pub fn previous(&self) -> u32 {
        self.links().previous
    }

    /// Below this unit every stamped record was durable when this one was stamped. Part of the stamp.
    #[inline]
    pub fn durable(&self) -> u32 {
        self.links().durable
    }

    /// Low 16 bits of the opening of the run in which the record was written and stamped. Part of the
    /// stamp; the tag fits no other opening.
    #[inline]
    pub fn opening(&self) -> u16 {
        self.links().opening
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
            .field("expires", &self.expires())
            .field("generation", &self.generation())
            .field("opening", &self.opening())
            .field("tag", &format_args!("{:#018x}", self.tag()))
            .field("sequence", &self.sequence())
            .field("previous", &self.previous())
            .field("durable", &self.durable())
            .finish_non_exhaustive()
    }
}

/// Checks that `bytes` start with a whole record that was written in the run of this opening and
/// belongs at `position`, in a segment of this generation. Checks neither the stamp nor the bytes
/// after the value.
///
/// The function does not check that the record fits its segment: staged records lie in no segment.
#[inline]
pub fn check<'a>(
    format: &LogFormat,
    position: u64,
    (generation, opening): (u32, u32),
    bytes: &'a [u8],
) -> Result<Record<'a>, RecordFault> {
    let header = RecordHeader::parse_prefix(bytes)?;
    if header.generation() != generation {
        return Err(RecordFault::Generation {
            found: header.generation(),
            expected: generation,
        });
    }
    check_tag(format, position, opening as u16, header, bytes)
}

/// [`check`] of a published record for readers, which know only the low 10 bits of the generation
/// that an index word carries, and the opening from the stamp.
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
    check_tag(format, position, header.opening(), header, bytes)
}

#[inline]
pub(crate) fn check_tag<'a>(
    format: &LogFormat,
    position: u64,
    opening: u16,
    header: RecordHeader,
    bytes: &'a [u8],
) -> Result<Record<'a>, RecordFault> {
    let record = untagged(header, bytes)?;
    let expected = format.tag(
        position,
        opening.into(),
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

/// The record, without a check of its tag.
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
