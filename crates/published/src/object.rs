//! Objects of Erda's log, and records of the baselines' ring.
//!
//! ```text
//!   object   | delete tag 1 | CRC-32 4 | key | value |      a deleted object ends after the key
//!   record   | CRC-32 4 | request 1 | key | value |
//! ```
//!
//! The checksum is CRC-32 over everything else, as published: it does not cover the place, so that
//! bytes of an earlier use of the same place pass (flaw E9).

/// Delete tag, and checksum.
const HEADER_SIZE: usize = 5;

/// The content of a whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object<'a> {
    pub key: &'a [u8],
    /// `None` if the key is deleted.
    pub value: Option<&'a [u8]>,
}

/// Bytes of an object with a value: the space of every object in the log.
pub(crate) const fn object_size(key_size: usize, value_size: usize) -> usize {
    HEADER_SIZE + key_size + value_size
}

/// Bytes of a record of the ring.
pub(crate) const fn slot_record_size(key_size: usize, value_size: usize) -> usize {
    HEADER_SIZE + key_size + value_size
}

/// The bytes of an object.
pub(crate) fn encode_object(key: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = vec![u8::from(value.is_none()), 0, 0, 0, 0];
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value.unwrap_or_default());
    let sum = checksum(&bytes[..1], &bytes[HEADER_SIZE..]);
    bytes[1..HEADER_SIZE].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The object at the start of `bytes`, if it is whole.
pub(crate) fn parse_object(bytes: &[u8], key_size: usize, value_size: usize) -> Option<Object<'_>> {
    let deleted = match bytes.first()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let size = HEADER_SIZE + key_size + if deleted { 0 } else { value_size };
    let body = bytes.get(HEADER_SIZE..size)?;
    let sum = u32::from_le_bytes(bytes[1..HEADER_SIZE].try_into().expect("4 bytes"));
    let (key, value) = body.split_at(key_size);
    (sum == checksum(&bytes[..1], body)).then_some(Object {
        key,
        value: (!deleted).then_some(value),
    })
}

/// The request in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Ask {
    /// Store the value.
    Put = 1,
    /// Remove the key.
    Delete = 2,
    /// Return the value.
    Get = 3,
    /// Return a slot of the ring for a record of this key.
    Place = 4,
}

/// A record in the form that clients of the baselines send and the ring stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub ask: Ask,
    pub key: &'a [u8],
    /// The value of a put; empty otherwise.
    pub value: &'a [u8],
}

impl<'a> Record<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, self.ask as u8];
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(self.value);
        let sum = checksum(&[], &bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The record at the start of `bytes`, if it is whole.
    pub fn parse(bytes: &'a [u8], key_size: usize, value_size: usize) -> Option<Self> {
        let (ask, value_size) = match bytes.get(4)? {
            1 => (Ask::Put, value_size),
            2 => (Ask::Delete, 0),
            3 => (Ask::Get, 0),
            4 => (Ask::Place, 0),
            _ => return None,
        };
        let covered = bytes.get(4..HEADER_SIZE + key_size + value_size)?;
        let sum = u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes"));
        let (key, value) = covered[1..].split_at(key_size);
        (sum == checksum(&[], covered)).then_some(Self { ask, key, value })
    }
}

fn checksum(first: &[u8], second: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(first);
    hasher.update(second);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torn(bytes: &[u8], cut: usize) -> Vec<u8> {
        let mut torn = bytes.to_vec();
        torn[cut..].fill(0);
        torn
    }

    #[test]
    fn an_object_that_is_written_is_read_and_a_torn_one_is_not() {
        for value in [Some(&b"value"[..]), None] {
            let object = encode_object(b"key", value);
            assert_eq!(
                parse_object(&object, 3, 5),
                Some(Object { key: b"key", value })
            );
            (0..object.len()).for_each(|cut| {
                assert_eq!(
                    parse_object(&torn(&object, cut), 3, 5),
                    None,
                    "torn at {cut}"
                )
            });
        }
    }

    #[test]
    fn a_record_that_is_written_is_read_and_a_torn_one_is_not() {
        for (ask, value) in [
            (Ask::Put, &b"value"[..]),
            (Ask::Delete, b""),
            (Ask::Get, b""),
            (Ask::Place, b""),
        ] {
            let record = Record {
                ask,
                key: b"key",
                value,
            };
            let bytes = record.encode();
            assert_eq!(Record::parse(&bytes, 3, 5), Some(record));
            (0..bytes.len()).for_each(|cut| {
                assert_eq!(
                    Record::parse(&torn(&bytes, cut), 3, 5),
                    None,
                    "torn at {cut}"
                )
            });
        }
    }

    #[test]
    fn unwritten_memory_is_not_an_object() {
        assert_eq!(parse_object(&[0; 64], 3, 5), None);
        assert_eq!(Record::parse(&[0; 64], 3, 5), None);
    }

    #[test]
    fn the_overhead_is_the_published_five_bytes() {
        assert_eq!(encode_object(b"0123456789", Some(&[7; 16])).len(), 5 + 26);
        assert_eq!(encode_object(b"0123456789", None).len(), 5 + 10);
    }
}
