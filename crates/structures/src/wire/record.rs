//! Records of a tenure's log. Each record proves itself and its place in the order of the log.
//!
//! ```text
//!   record 7 ──tag──▶ previous of record 8 ──tag──▶ previous of record 9
//!    tenure 3          tenure 3                      tenure 3
//! ```
//!
//! The tag of a record covers its header and body, and thereby the tag of the predecessor, the log sequence number and
//! the tenure. The bytes of an earlier use of the area, of another tenure, or of a record whose predecessor is lost
//! never match.
//!
//! The tag is no secret: the owner of a log can make any record in that log. The tag detects torn, stale and missing
//! records.

use std::fmt;

use stonecast_base::{hash, mutant};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the longest body. A value of 1 MiB, its key and the links that publish it fit into one record.
pub const BODY_SIZE_MAX: usize = (1 << 20) + (1 << 16);
/// Bytes before the body of a record.
pub const HEADER_SIZE: usize = size_of::<HeaderBytes>();
/// The places and the sizes of records are multiples of this size.
const GRAIN: usize = 8;

/// Seed of the tags of a pool's records. Front-ends know it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogKey(pub u64);

impl fmt::Debug for LogKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LogKey(..)")
    }
}

/// The bytes of a header. The format page shows them.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    tag: U64,
    previous: U64,
    lsn: U64,
    last: U64,
    tenure: U32,
    size: U32,
    covers: U32,
    kind: u8,
    reserved: [u8; 3],
}

const TAG_SIZE: usize = 8;
const OPERATION: u8 = 1;
const TRANSACTION: u8 = 2;

/// The effect of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operation with this number. The numbers of a domain's operations ascend by 1.
    Operation {
        /// The number.
        number: u64,
    },
    /// The changes of the operations with the numbers up to `last` in the memory of the domain.
    Transaction {
        /// The number of the last operation that is covered, or was covered before.
        last: u64,
        /// Covered operations: those that end with `last`. A transaction that publishes no operation covers none.
        covers: u32,
    },
}

/// The header of a record that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Log sequence number. It counts the records of a domain, in all its tenures.
    pub lsn: u64,
    /// The tenure of the record's writer.
    pub tenure: u32,
    /// The kind of the record.
    pub kind: Kind,
    /// Bytes of the body.
    pub body_size: usize,
}

/// A checked record: a private copy, which its writer can no longer change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The header.
    pub header: RecordHeader,
    /// The body.
    pub body: Vec<u8>,
    /// Position in the log: bytes since the start of the tenure.
    pub position: u64,
}

impl Record {
    /// The position after the record.
    pub fn end(&self) -> u64 {
        self.position + record_size(self.body.len())
    }
}

/// Bytes that a record with this body takes in the log.
pub const fn record_size(body_size: usize) -> u64 {
    (HEADER_SIZE + body_size).next_multiple_of(GRAIN) as u64
}

/// The reason why bytes are not the next record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The record has other bytes than the log has room for.
    #[error("a record of {size} bytes where {room} are left")]
    Room {
        /// Bytes of the record.
        size: u64,
        /// Bytes of the log from the start of the record.
        room: u64,
    },
    /// No record has such a body.
    #[error("a body of {0} bytes, expected at most {BODY_SIZE_MAX}")]
    Size(u32),
    /// The code is that of no kind of record, or reserved bytes are in use.
    #[error("no kind of record: {0:#04x}")]
    Kind(u8),
    /// The record is not the next one.
    #[error("record {found}, expected record {expected}")]
    Lsn {
        /// The number found.
        found: u64,
        /// The number expected.
        expected: u64,
    },
    /// The record is of another tenure.
    #[error("a record of tenure {found}, expected tenure {expected}")]
    Tenure {
        /// The tenure found.
        found: u32,
        /// The tenure expected.
        expected: u32,
    },
    /// The record follows a record that is not in this log.
    #[error("a record behind tag {found:#018x}, expected {expected:#018x}")]
    Previous {
        /// The tag found.
        found: u64,
        /// The tag of the last record.
        expected: u64,
    },
    /// An operation leaves numbers out, or a transaction covers operations that the log does not have, or not all
    /// before them.
    #[error("operations {first} to {last}, expected to begin with {next} and to end by {end}")]
    Numbers {
        /// The first operation.
        first: u64,
        /// The last operation.
        last: u64,
        /// The first operation that is not covered; of an operation, the next number.
        next: u64,
        /// The last operation in the log.
        end: u64,
    },
    /// The bytes are torn or damaged.
    #[error("tag {found:#018x}, expected {expected:#018x}")]
    Tag {
        /// The tag found.
        found: u64,
        /// The tag of these bytes.
        expected: u64,
    },
}

/// The end of a log, which the next record must follow.
///
/// Both sides have one: a writer makes records with it, and a scan checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The tag of the last record.
    pub tag: u64,
    /// Log sequence number of the next record.
    pub lsn: u64,
    /// The tenure of the next record.
    pub tenure: u32,
    /// Number of the last operation.
    pub operation: u64,
    /// Number of the last operation that a transaction covers.
    pub covered: u64,
}

impl Chain {
    /// The start of a tenure. `lsn` is the number of its first record; all operations up to `operation` are covered.
    pub fn start(key: LogKey, domain: u32, tenure: u32, lsn: u64, operation: u64) -> Self {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&domain.to_le_bytes());
        bytes[4..8].copy_from_slice(&tenure.to_le_bytes());
        bytes[8..].copy_from_slice(&lsn.to_le_bytes());
        Self {
            tag: hash::xxh3_64(key.0, &bytes),
            lsn,
            tenure,
            operation,
            covered: operation,
        }
    }

    /// The bytes of the next record, which covers operations from the first one that is not covered. The chain then
    /// continues after the record.
    ///
    /// # Panics
    /// If the body is longer than [`BODY_SIZE_MAX`], or if the record does not follow the last one
    /// ([`RecordFault::Numbers`]).
    pub fn append(&mut self, key: LogKey, kind: Kind, body: &[u8]) -> Vec<u8> {
        assert!(body.len() <= BODY_SIZE_MAX, "{} bytes", body.len());
        let after = self
            .numbers(kind)
            .expect("a writer leaves no operation out");
        let (kind_code, last, covers) = match kind {
            Kind::Operation { number } => (OPERATION, number, 0),
            Kind::Transaction { last, covers } => (TRANSACTION, last, covers),
        };
        let header = HeaderBytes {
            tag: U64::ZERO,
            previous: U64::new(self.tag),
            lsn: U64::new(self.lsn),
            last: U64::new(last),
            tenure: U32::new(self.tenure),
            size: U32::new(body.len() as u32),
            covers: U32::new(covers),
            kind: kind_code,
            reserved: [0; 3],
        };
        let size = record_size(body.len()) as usize;
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(body);
        let tag = tag_of(key, &bytes);
        bytes[..TAG_SIZE].copy_from_slice(&tag.to_le_bytes());
        bytes.resize(size, 0);
        *self = Self { tag, ..after };
        bytes
    }

    /// Bytes of the record whose header these bytes may be. `room` is the number of bytes of the log from the record's
    /// start on.
    ///
    /// # Errors
    /// [`RecordFault`] if the header is not that of the next record.
    pub(crate) fn size_of(
        &self,
        header: &[u8; HEADER_SIZE],
        room: u64,
    ) -> Result<u64, RecordFault> {
        let header = HeaderBytes::read_from_bytes(header).expect("a header has this size");
        self.header(&header)?;
        let size = record_size(header.size.get() as usize);
        match size <= room {
            true => Ok(size),
            false => Err(RecordFault::Room { size, room }),
        }
    }

    /// Checks a private copy of the next record at `position`, and moves the chain after the record. The writer may
    /// have changed the record since [`Chain::size_of`] saw its header, so the header is checked again.
    ///
    /// # Errors
    /// [`RecordFault`]: the log ends here, or is damaged. The chain is unchanged.
    pub(crate) fn check(
        &mut self,
        key: LogKey,
        bytes: &[u8],
        position: u64,
    ) -> Result<Record, RecordFault> {
        let (start, rest) = bytes.split_first_chunk().expect("a record has a header");
        let start: &[u8; HEADER_SIZE] = start;
        let header = HeaderBytes::read_from_bytes(start).expect("a header has this size");
        let kind = self.header(&header)?;
        let after = self.numbers(kind)?;
        let body_size = header.size.get() as usize;
        let (size, room) = (record_size(body_size), bytes.len() as u64);
        if size != room {
            return Err(RecordFault::Room { size, room });
        }
        let (found, expected) = (
            header.tag.get(),
            tag_of(key, &bytes[..HEADER_SIZE + body_size]),
        );
        if found != expected && !mutant!(LogTagNotChecked) {
            return Err(RecordFault::Tag { found, expected });
        }
        let record = Record {
            header: RecordHeader {
                lsn: self.lsn,
                tenure: self.tenure,
                kind,
                body_size,
            },
            body: rest[..body_size].to_vec(),
            position,
        };
        *self = Self {
            tag: found,
            ..after
        };
        Ok(record)
    }

    /// Checks everything of a header but the tag and the numbers of operations.
    fn header(&self, header: &HeaderBytes) -> Result<Kind, RecordFault> {
        let (found, expected) = (header.lsn.get(), self.lsn);
        if found != expected {
            return Err(RecordFault::Lsn { found, expected });
        }
        let (found, expected) = (header.tenure.get(), self.tenure);
        if found != expected && !mutant!(TenureNotInTag) {
            return Err(RecordFault::Tenure { found, expected });
        }
        let (found, expected) = (header.previous.get(), self.tag);
        if found != expected && !mutant!(PredecessorNotInTag) {
            return Err(RecordFault::Previous { found, expected });
        }
        if header.size.get() as usize > BODY_SIZE_MAX {
            return Err(RecordFault::Size(header.size.get()));
        }
        let (last, covers) = (header.last.get(), header.covers.get());
        match (header.kind, header.reserved) {
            (OPERATION, [0, 0, 0]) if covers == 0 => Ok(Kind::Operation { number: last }),
            (TRANSACTION, [0, 0, 0]) => Ok(Kind::Transaction { last, covers }),
            (kind, _) => Err(RecordFault::Kind(kind)),
        }
    }

    /// The chain after a record of this kind, but for its tag.
    fn numbers(&self, kind: Kind) -> Result<Self, RecordFault> {
        let (first, last, next, end) = match kind {
            Kind::Operation { number } => (
                number,
                number,
                self.operation.wrapping_add(1),
                self.operation.wrapping_add(1),
            ),
            Kind::Transaction { last, covers } => {
                let first = last.wrapping_sub(covers.into()).wrapping_add(1);
                (first, last, self.covered.wrapping_add(1), self.operation)
            }
        };
        let is_contiguous = first == next || mutant!(CoverageNotContiguous);
        if !is_contiguous || last > end || last.wrapping_add(1) < first {
            return Err(RecordFault::Numbers {
                first,
                last,
                next,
                end,
            });
        }
        let (operation, covered) = match kind {
            Kind::Operation { number } => (number, self.covered),
            Kind::Transaction { last, .. } => (self.operation, last),
        };
        Ok(Self {
            lsn: self.lsn + 1,
            operation,
            covered,
            ..*self
        })
    }
}

/// The tag of a record whose header and body are `bytes`.
fn tag_of(key: LogKey, bytes: &[u8]) -> u64 {
    hash::xxh3_64(key.0, &bytes[TAG_SIZE..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: LogKey = LogKey(0xfeed);

    fn start(tenure: u32) -> Chain {
        Chain::start(KEY, 1, tenure, 10, 40)
    }

    fn operation(number: u64) -> Kind {
        Kind::Operation { number }
    }

    fn transaction(last: u64, covers: u32) -> Kind {
        Kind::Transaction { last, covers }
    }

    fn read(chain: &mut Chain, bytes: &[u8]) -> Result<Record, RecordFault> {
        let size = chain.size_of(bytes.first_chunk().unwrap(), bytes.len() as u64)?;
        chain.check(KEY, &bytes[..size as usize], 0)
    }

    #[test]
    fn a_record_is_read_as_it_was_made() {
        let (mut writer, mut reader) = (start(3), start(3));
        for (kind, body) in [
            (operation(41), &b"first"[..]),
            (operation(42), b""),
            (transaction(42, 2), b"what both change"),
            (transaction(42, 0), b"nothing is published"),
        ] {
            let bytes = writer.append(KEY, kind, body);
            assert_eq!(bytes.len() % GRAIN, 0);
            let record = read(&mut reader, &bytes).unwrap();
            assert_eq!((record.header.kind, &*record.body), (kind, body));
            assert_eq!(record.end(), bytes.len() as u64);
            assert_eq!(reader, writer);
        }
    }

    /// Needs the comparisons of number, tenure and predecessor.
    #[test]
    fn a_record_of_another_place_or_tenure_or_behind_another_record_is_refused() {
        let mut writer = start(3);
        let first = writer.append(KEY, operation(41), b"first");
        let second = writer.append(KEY, operation(42), b"second");
        let fault = read(&mut start(3), &second).unwrap_err();
        assert_eq!(
            fault,
            RecordFault::Lsn {
                found: 11,
                expected: 10
            }
        );
        let fault = read(&mut start(4), &first).unwrap_err();
        assert!(matches!(fault, RecordFault::Tenure { .. }), "{fault}");
        let mut other = start(3);
        let _lost = other.append(KEY, operation(41), b"another");
        let fault = read(&mut other, &second).unwrap_err();
        assert!(matches!(fault, RecordFault::Previous { .. }), "{fault}");
    }

    /// Needs the tag: each bit of a record counts, but for the zeros after the body.
    #[test]
    fn a_record_with_a_flipped_bit_is_refused() {
        let bytes = start(3).append(KEY, operation(41), b"sixteen bytes ..");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut chain = start(3);
            read(&mut chain, &damaged).unwrap_err();
            assert_eq!(chain, start(3), "bit {bit}");
        }
    }

    /// Needs the check of the numbers.
    #[test]
    fn a_transaction_covers_the_next_operations_without_a_gap() {
        let mut chain = start(3);
        let _ = chain.append(KEY, operation(41), b"");
        let _ = chain.append(KEY, operation(42), b"");
        for (kind, is_good) in [
            (transaction(41, 1), true),
            (transaction(42, 2), true),
            (transaction(40, 0), true),
            (transaction(42, 1), false),
            (transaction(43, 3), false),
            (transaction(41, 2), false),
            (transaction(39, 0), false),
            (operation(43), true),
            (operation(44), false),
            (operation(42), false),
        ] {
            assert_eq!(chain.numbers(kind).is_ok(), is_good, "{kind:?}");
        }
    }
}
