//! The messages between client and server. Little-endian, fixed layouts; `docs/formats/protocol.md` has the tables.
//!
//! Each request gets exactly one answer, and the answers of a connection come in the order of its
//! requests (a WRITE_WITH_IMM into leased or staging memory is a request too). So an answer names no request.
//!
//! Whatever arrives is unchecked bytes until one of the `parse` functions here has accepted it.

use stonecast_log::Condition;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::{ANSWER_SIZE_MAX, PROTOCOL_VERSION, REQUEST_SIZE_MAX};
use crate::metrics::{ClientPath, PAGES, REPORT_SIZE};

/// First bytes of what both sides say when they connect.
const MAGIC: [u8; 8] = *b"stonecdk";

/// Client's private data of the connection request.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct Hello {
    magic: [u8; 8],
    version: U32,
    path: u8,
    reserved: [u8; 3],
}

impl Hello {
    pub fn new(path: ClientPath) -> Self {
        Self { magic: MAGIC, version: U32::new(PROTOCOL_VERSION), path: path as u8, reserved: [0; 3] }
    }

    /// How the client of a hello that is not refused comes to the store. What it says changes what is counted where.
    pub fn path(private_data: &[u8]) -> ClientPath {
        let said = Self::read_from_bytes(private_data).map(|hello| hello.path);
        ClientPath::ALL.into_iter().find(|&path| said == Ok(path as u8)).unwrap_or_default()
    }

    /// The reason to refuse, for people, if there is one.
    pub fn refusal(private_data: &[u8]) -> Option<String> {
        match Self::read_from_bytes(private_data) {
            Ok(hello) if hello.magic == MAGIC && hello.version.get() == PROTOCOL_VERSION => None,
            Ok(hello) if hello.magic == MAGIC => Some(format!(
                "client speaks protocol version {}, this server {PROTOCOL_VERSION}; use the same version of stonecast on both sides",
                hello.version
            )),
            _ => Some("not a client of the direct store".to_owned()),
        }
    }
}

/// Server's private data when it accepts: all that a client needs to read and write.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct Welcome {
    magic: [u8; 8],
    version: U32,
    /// log2 of the number of buckets.
    pub index_bits: U32,
    pub uuid: [u8; 16],
    pub segment_size: U64,
    pub segment_count: U32,
    pub epoch: U32,
    pub tag_key: U64,
    pub index_address: U64,
    pub log_address: U64,
    pub staging_address: U64,
    pub index_rkey: U32,
    pub log_rkey: U32,
    pub staging_rkey: U32,
    /// Bytes of staging memory; 0: the client leases extents of the log.
    pub staging_size: U32,
}

impl Welcome {
    pub fn new() -> Self {
        Self { magic: MAGIC, version: U32::new(PROTOCOL_VERSION), ..FromZeros::new_zeroed() }
    }

    pub fn parse(private_data: &[u8]) -> Option<Self> {
        let welcome = Self::read_from_bytes(private_data).ok()?;
        let sane = welcome.magic == MAGIC
            && welcome.version.get() == PROTOCOL_VERSION
            && welcome.index_bits.get() < 48
            && welcome.segment_size.get().is_power_of_two()
            && welcome.segment_size.get().checked_mul(welcome.segment_count.get().into()).is_some();
        sane.then_some(welcome)
    }
}

/// A request that is sent as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// Lease an extent with room for at least `size` bytes.
    Lease { size: u32 },
    /// Give a lease back.
    Release(Release),
    /// Delete `key`.
    Delete { condition: Condition, token: u64, key: &'a [u8] },
    /// Report a page of the store's counters.
    Stat { page: u8 },
    /// What the client has done, see [`crate::metrics`].
    Report(&'a [u8]),
}

/// See [`Request::Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub slot: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RequestHeader {
    kind: u8,
    /// Lease slot of a release, condition of a delete.
    detail: u8,
    reserved: [u8; 2],
    /// Bytes wanted by a lease, bytes of a delete's key.
    size: U32,
    token: U64,
    expected: U64,
}

const REQUEST_HEADER_SIZE: usize = size_of::<RequestHeader>();
const _: () = assert!(REQUEST_HEADER_SIZE == 24);
const _: () = assert!(REQUEST_HEADER_SIZE + REPORT_SIZE <= REQUEST_SIZE_MAX);

impl<'a> Request<'a> {
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut header = <RequestHeader as FromZeros>::new_zeroed();
        let mut tail: &[u8] = &[];
        match *self {
            Self::Lease { size } => {
                header.kind = 1;
                header.size = U32::new(size);
            }
            Self::Release(release) => {
                header.kind = 2;
                header.detail = release.slot;
            }
            Self::Delete { condition, token, key } => {
                header.kind = 3;
                (header.detail, header.expected) = match condition {
                    Condition::None => (0, U64::new(0)),
                    Condition::Version(version) => (1, U64::new(version)),
                    Condition::Absent => (2, U64::new(0)),
                };
                header.token = U64::new(token);
                header.size = U32::new(key.len() as u32);
                tail = key;
            }
            Self::Stat { page } => {
                header.kind = 4;
                header.detail = page;
            }
            Self::Report(bytes) => {
                header.kind = 5;
                header.size = U32::new(bytes.len() as u32);
                tail = bytes;
            }
        }
        into.clear();
        into.extend_from_slice(header.as_bytes());
        into.extend_from_slice(tail);
    }

    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, tail) = RequestHeader::read_from_prefix(bytes).ok()?;
        match header.kind {
            1 if tail.is_empty() => Some(Self::Lease { size: header.size.get() }),
            2 if tail.is_empty() => Some(Self::Release(Release { slot: header.detail })),
            3 if tail.len() == header.size.get() as usize => {
                let condition = match header.detail {
                    0 => Condition::None,
                    1 => Condition::Version(header.expected.get()),
                    _ => return None,
                };
                Some(Self::Delete { condition, token: header.token.get(), key: tail })
            }
            4 if tail.is_empty() && header.detail < PAGES => Some(Self::Stat { page: header.detail }),
            5 if tail.len() == header.size.get() as usize => Some(Self::Report(tail)),
            _ => None,
        }
    }
}

/// How an operation ended at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// Durable and visible; `version` is the new one.
    Done = 0,
    /// The condition did not hold; `version` is the present one, 0 if the key is absent. Nothing was done.
    Conflict = 1,
    /// There is nothing to delete. Nothing was done.
    Absent = 2,
    /// No room. Nothing was done.
    NoSpace = 3,
    /// The request broke the rules. Nothing was done.
    Invalid = 4,
    /// Space is being prepared; ask again soon. Nothing was done.
    Busy = 5,
    /// Making it durable failed. Unknown.
    Failed = 6,
}

impl Verdict {
    fn parse(value: u8) -> Option<Self> {
        [Self::Done, Self::Conflict, Self::Absent, Self::NoSpace, Self::Invalid, Self::Busy, Self::Failed]
            .into_iter()
            .find(|&verdict| verdict as u8 == value)
    }
}

/// A lease as the client gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub slot: u8,
    pub segment: u32,
    pub generation: u32,
    /// First free 64-byte unit of the segment.
    pub start: u32,
    /// Remote address of unit 0 of the segment.
    pub address: u64,
    pub rkey: u32,
}

/// Number of counters in a [`Answer::Stat`].
pub(crate) const COUNTERS: usize = 24;

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Verdict { verdict: Verdict, version: u64 },
    Lease(Grant),
    Stat([u64; COUNTERS]),
}

/// Frames several answers into one message, in order: per answer a tag byte and its fixed-size body.
#[derive(Default)]
pub(crate) struct AnswerWriter {
    bytes: Vec<u8>,
}

impl AnswerWriter {
    /// Adds an answer; false if the message is full, then it must be sent first.
    #[must_use]
    pub fn push(&mut self, answer: &Answer) -> bool {
        let size = 1 + match answer {
            Answer::Verdict { .. } => 8,
            Answer::Lease(_) => 28,
            Answer::Stat(_) => COUNTERS * 8,
        };
        if self.bytes.len() + size > ANSWER_SIZE_MAX {
            return false;
        }
        match answer {
            Answer::Verdict { verdict, version } => {
                self.bytes.push(*verdict as u8);
                self.bytes.extend_from_slice(&version.to_le_bytes());
            }
            Answer::Lease(grant) => {
                self.bytes.push(TAG_LEASE);
                self.bytes.extend_from_slice(&u32::from(grant.slot).to_le_bytes());
                for part in [grant.segment, grant.generation, grant.start, grant.rkey] {
                    self.bytes.extend_from_slice(&part.to_le_bytes());
                }
                self.bytes.extend_from_slice(&grant.address.to_le_bytes());
            }
            Answer::Stat(counters) => {
                self.bytes.push(TAG_STAT);
                counters.iter().for_each(|counter| self.bytes.extend_from_slice(&counter.to_le_bytes()));
            }
        }
        true
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

const TAG_LEASE: u8 = 0x40;
const TAG_STAT: u8 = 0x41;

/// Takes the next answer off `bytes`; `None` at the end or where the bytes make no sense (then `bytes` is not empty).
pub(crate) fn next_answer(bytes: &mut &[u8]) -> Option<Answer> {
    let word32 = |body: &[u8], index: usize| u32::from_le_bytes(body[index..index + 4].try_into().expect("4 bytes"));
    let word64 = |body: &[u8], index: usize| u64::from_le_bytes(body[index..index + 8].try_into().expect("8 bytes"));
    let (&tag, rest) = bytes.split_first()?;
    let (size, answer) = match tag {
        TAG_LEASE => {
            let body = rest.get(..28)?;
            let grant = Grant {
                slot: u8::try_from(word32(body, 0)).ok()?,
                segment: word32(body, 4),
                generation: word32(body, 8),
                start: word32(body, 12),
                rkey: word32(body, 16),
                address: word64(body, 20),
            };
            (28, Answer::Lease(grant))
        }
        TAG_STAT => {
            let body = rest.get(..COUNTERS * 8)?;
            (body.len(), Answer::Stat(std::array::from_fn(|i| word64(body, i * 8))))
        }
        verdict => {
            let body = rest.get(..8)?;
            (8, Answer::Verdict { verdict: Verdict::parse(verdict)?, version: word64(body, 0) })
        }
    };
    *bytes = &rest[size..];
    Some(answer)
}

/// The immediate of a write: lease slot and unit.
pub(crate) fn immediate(slot: u8, unit: u32) -> u32 {
    assert!(unit < 1 << 24, "a segment has fewer than 2^24 units");
    u32::from(slot) << 24 | unit
}

/// What an immediate names.
pub(crate) fn split_immediate(immediate: u32) -> (u8, u32) {
    ((immediate >> 24) as u8, immediate & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_wire() {
        let mut bytes = Vec::new();
        for request in [
            Request::Lease { size: 77 },
            Request::Release(Release { slot: 3 }),
            Request::Delete { condition: Condition::Version(9), token: 4, key: b"k" },
            Request::Delete { condition: Condition::None, token: 0, key: &[7; 1024] },
            Request::Stat { page: 3 },
            Request::Report(&[7; REPORT_SIZE]),
        ] {
            request.encode(&mut bytes);
            assert_eq!(Request::parse(&bytes), Some(request));
            assert_eq!(Request::parse(&bytes[..bytes.len() - 1]), None, "a cut request is no request");
        }
    }

    #[test]
    fn any_bytes_are_a_request_or_none_and_never_a_panic() {
        let mut random = stonecast_base::random_from_seed(1);
        for _ in 0..100_000 {
            use rand::RngExt as _;
            let size = random.random_range(0..64);
            let mut bytes: Vec<u8> = (0..size).map(|_| random.random()).collect();
            if let Some(first) = bytes.first_mut() {
                *first %= 7;
            }
            let _ = Request::parse(&bytes);
            let mut rest = bytes.as_slice();
            while next_answer(&mut rest).is_some() {}
        }
    }

    #[test]
    fn answers_survive_the_wire_in_order() {
        let answers = [
            Answer::Verdict { verdict: Verdict::Done, version: 1 << 40 },
            Answer::Lease(Grant { slot: 2, segment: 3, generation: 4, start: 5, address: 6 << 33, rkey: 7 }),
            Answer::Stat(std::array::from_fn(|i| i as u64)),
            Answer::Verdict { verdict: Verdict::Failed, version: 0 },
        ];
        let mut writer = AnswerWriter::default();
        assert!(answers.iter().all(|answer| writer.push(answer)));
        let mut bytes = writer.bytes();
        let back: Vec<Answer> = std::iter::from_fn(|| next_answer(&mut bytes)).collect();
        assert_eq!(back, answers);
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_message_of_answers_never_exceeds_the_receive_buffer() {
        let mut writer = AnswerWriter::default();
        while writer.push(&Answer::Verdict { verdict: Verdict::Done, version: 1 }) {}
        assert!(writer.bytes().len() <= ANSWER_SIZE_MAX);
    }
}
