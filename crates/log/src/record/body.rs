//! The body of an entry: a record on its way to the log of another node.
//!
//! ```text
//!   record    | sequence  commit tag  links | tag | facts  token  moment  expiry  key  value |
//!   body                                          | facts  token  moment  expiry  key  value |    with generation 0
//! ```
//!
//! A body holds no place. Its receiver writes it like a moved record ([`relocate`](super::relocate)), which binds it to
//! a place there. The version is that of the entry.
//!
//! The tag of an entry proves the entry's body, and the session in which a page comes proves the bodies in the page.
//! The sender is another node, so everything else is checked here.

use super::{
    Draft, KEY_SIZE_MAX, RECORD_START_SIZE, Record, RecordFault, RecordHeader, TAGGED_FROM,
    VALUE_SIZE_MAX,
};

/// Bytes of the longest body.
pub const RECORD_BODY_SIZE_MAX: usize =
    super::HEADER_SIZE_MAX + super::EXPIRY_SIZE - TAGGED_FROM + KEY_SIZE_MAX + VALUE_SIZE_MAX;

/// Bits of the facts beside the generation.
const WITHOUT_GENERATION: u64 = !((super::GENERATION_MAX as u64) << super::GENERATION_SHIFT);

/// A record that came as the body of an entry.
#[derive(Clone, Debug)]
pub struct RecordBody {
    header: RecordHeader,
    /// The place of the stamp, which has the version, and then the body.
    bytes: Vec<u8>,
}

/// Bytes that are no body of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyFault {
    /// Lengths or codes are impossible.
    #[error(transparent)]
    Record(#[from] RecordFault),
    /// The record ends before the bytes do.
    #[error("{found} bytes, and the record has {expected}")]
    Size {
        /// Bytes at hand.
        found: u64,
        /// Bytes of the record.
        expected: u64,
    },
    /// The record names a generation of a segment, which says nothing here.
    #[error("a record of generation {0} as a body")]
    Generation(u32),
    /// The bytes are not all records of one batch.
    #[error("a batch whose record {0} is missing, cut off, or out of its place")]
    TornBatch(usize),
}

impl Draft<'_> {
    /// The draft as the body of an entry.
    ///
    /// The sizes must be within the limits, as for [`Draft::encode`].
    pub fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.facts(0).write(self.key, self.value, &mut body);
        body
    }
}

impl Record<'_> {
    /// The record as the body of an entry, or of a page. `bytes` are those of the record, from its start.
    pub fn body_of(header: &RecordHeader, bytes: &[u8]) -> Vec<u8> {
        let mut body = bytes[TAGGED_FROM..header.whole_size() as usize].to_vec();
        let facts = header.facts() & WITHOUT_GENERATION;
        body[..8].copy_from_slice(&facts.to_le_bytes());
        body
    }
}

impl RecordBody {
    /// Reads the body of an entry with this version.
    ///
    /// # Errors
    /// [`BodyFault`]: the bytes are no body that a node makes.
    pub fn read(version: u64, body: &[u8]) -> Result<Self, BodyFault> {
        let mut bytes = vec![0; TAGGED_FROM];
        bytes[..8].copy_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(body);
        let header = RecordHeader::parse_prefix(&bytes)?;
        let (found, expected) = (bytes.len() as u64, header.whole_size());
        if found != expected {
            return Err(BodyFault::Size { found, expected });
        }
        if header.generation() != 0 {
            return Err(BodyFault::Generation(header.generation()));
        }
        Ok(Self { header, bytes })
    }

    /// The record. Its sequence is the version; the rest of its stamp means nothing.
    pub fn record(&self) -> Record<'_> {
        let (key, value) = self.bytes[self.header.key_start()..].split_at(self.header.key_size());
        Record {
            header: self.header,
            key,
            value,
        }
    }
}

const _: () = assert!(TAGGED_FROM < RECORD_START_SIZE);

#[cfg(test)]
mod tests {
    use super::super::{Condition, Expiry, Form, Kind};
    use super::*;

    fn draft<'a>(kind: Kind, token: u64, value: &'a [u8]) -> Draft<'a> {
        Draft {
            kind,
            form: Form::Whole,
            condition: Condition::Version(7),
            token,
            expires: Expiry::at_ms(2_000_000_000_000),
            key: b"key",
            value,
        }
    }

    #[test]
    fn a_body_keeps_kind_token_condition_moment_key_and_value_and_gets_the_version_of_its_entry() {
        for (kind, token, value) in [
            (Kind::Put, 0, &b"value"[..]),
            (Kind::Put, 9, b""),
            (Kind::Delete, 11, b""),
        ] {
            let body = draft(kind, token, value).body();
            let read = RecordBody::read(31, &body).unwrap();
            let Record {
                header,
                key,
                value: found,
            } = read.record();
            assert_eq!((header.kind(), header.token()), (kind, token));
            assert_eq!(header.condition(), Condition::Version(7));
            assert_eq!((header.sequence(), key, found), (31, &b"key"[..], value));
            let moment = header.expires().or(header.time_mark());
            assert_eq!(moment, Expiry::at_ms(2_000_000_000_000));
        }
    }

    /// Needs the cleared generation: a body would hold the place of one node.
    #[test]
    fn the_body_of_a_record_in_a_log_is_that_of_its_draft() {
        let format = crate::facts::format(4096, 2);
        let draft = draft(Kind::Put, 5, b"value");
        let mut bytes = Vec::new();
        draft.encode(&format, 256, 77, 3, &mut bytes);
        let header = RecordHeader::parse_prefix(&bytes).unwrap();
        assert_eq!(Record::body_of(&header, &bytes), draft.body());
    }

    /// Fails without the checks of size and generation: a body with a tail would make a record of other bytes.
    #[test]
    fn bytes_that_are_no_body_are_refused() {
        let whole = draft(Kind::Put, 5, b"value").body();
        for size in 0..whole.len() {
            assert!(RecordBody::read(1, &whole[..size]).is_err(), "{size}");
        }
        let mut longer = whole.clone();
        longer.push(0);
        let size = BodyFault::Size {
            found: longer.len() as u64 + 32,
            expected: whole.len() as u64 + 32,
        };
        assert_eq!(RecordBody::read(1, &longer).unwrap_err(), size);
        let mut placed = whole;
        placed[7] |= 0x40;
        let refused = RecordBody::read(1, &placed).unwrap_err();
        assert!(matches!(refused, BodyFault::Generation(_)), "{refused}");
    }
}
