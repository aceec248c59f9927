//! The content of a batch on its way to the server: the value of a record that is no record of the log.
//!
//! Each entry names a key, the expectation of the key, and the change of the key. An entry is a header of 24 bytes, the
//! key, and the value.

use stonecast_log::{Expiry, KEY_SIZE_MAX, VALUE_SIZE_MAX};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes as _};

use super::layout::message;

message! {
    /// The header of an entry. Key and value follow.
    EntryHeader, BATCH_ENTRY:
    change: u8, "change: 0 none, 1 put, 2 delete";
    expectation: u8, "expectation: 0 none, 1 version, 2 absent, 3 present";
    key_size: U16, "bytes of the key";
    value_size: U32, "bytes of the value of a put";
    version: U64, "version that is expected";
    expires: U64, "expiry of a put, milliseconds since 1970 in UTC; 0: none";
}

/// The state that a batch expects of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The key has this version.
    Version(u64),
    /// The key is absent.
    Absent,
    /// The key is present, in any version.
    Present,
}

/// The change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryChange<'b> {
    Put {
        value: &'b [u8],
        expires: Option<Expiry>,
    },
    Delete,
}

/// An entry of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchEntry<'b> {
    pub key: &'b [u8],
    pub expectation: Option<Expectation>,
    /// `None`: the key is only expected to be in a state.
    pub change: Option<EntryChange<'b>>,
}

impl Expectation {
    /// Whether a key of version `present` is as expected.
    pub(crate) fn holds(self, present: Option<u64>) -> bool {
        match self {
            Self::Version(version) => present == Some(version),
            Self::Absent => present.is_none(),
            Self::Present => present.is_some(),
        }
    }
}

impl BatchEntry<'_> {
    /// Bytes of the entry.
    pub fn size(key_size: usize, value_size: usize) -> usize {
        size_of::<EntryHeader>() + key_size + value_size
    }
}

/// Appends an entry to `into`.
pub(crate) fn push_entry(into: &mut Vec<u8>, entry: &BatchEntry<'_>) {
    let mut header = EntryHeader::new_zeroed();
    header.key_size = U16::new(entry.key.len() as u16);
    (header.expectation, header.version) = match entry.expectation {
        None => (0, U64::ZERO),
        Some(Expectation::Version(version)) => (1, U64::new(version)),
        Some(Expectation::Absent) => (2, U64::ZERO),
        Some(Expectation::Present) => (3, U64::ZERO),
    };
    let mut content: &[u8] = &[];
    match entry.change {
        None => {}
        Some(EntryChange::Put { value, expires }) => {
            header.change = 1;
            header.value_size = U32::new(value.len() as u32);
            header.expires = U64::new(expires.map_or(0, Expiry::ms));
            content = value;
        }
        Some(EntryChange::Delete) => header.change = 2,
    }
    into.extend_from_slice(header.as_bytes());
    into.extend_from_slice(entry.key);
    into.extend_from_slice(content);
}

/// Takes the next entry off `bytes`. `None`: the bytes are no entry.
pub(crate) fn next_entry<'b>(bytes: &mut &'b [u8]) -> Option<BatchEntry<'b>> {
    let (header, rest) = EntryHeader::read_from_prefix(bytes).ok()?;
    let (key, rest) = rest.split_at_checked(header.key_size.get().into())?;
    let (value, rest) = rest.split_at_checked(header.value_size.get() as usize)?;
    if !(1..=KEY_SIZE_MAX).contains(&key.len()) || value.len() > VALUE_SIZE_MAX {
        return None;
    }
    let (version, expires) = (header.version.get(), header.expires.get());
    let expectation = match header.expectation {
        0 => None,
        1 => Some(Expectation::Version(version)),
        2 => Some(Expectation::Absent),
        3 => Some(Expectation::Present),
        _ => return None,
    };
    let change = match header.change {
        1 => {
            let expires = Expiry::at_ms(expires);
            Some(EntryChange::Put { value, expires })
        }
        _ if !value.is_empty() || expires != 0 => return None,
        2 => Some(EntryChange::Delete),
        0 if expectation.is_some() => None,
        _ => return None,
    };
    *bytes = rest;
    Some(BatchEntry {
        key,
        expectation,
        change,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: [BatchEntry<'static>; 4] = [
        BatchEntry {
            key: b"a",
            expectation: None,
            change: Some(EntryChange::Put {
                value: b"value",
                expires: None,
            }),
        },
        BatchEntry {
            key: b"bb",
            expectation: Some(Expectation::Version(7)),
            change: Some(EntryChange::Put {
                value: b"",
                expires: Expiry::at_ms(9),
            }),
        },
        BatchEntry {
            key: b"c",
            expectation: Some(Expectation::Present),
            change: Some(EntryChange::Delete),
        },
        BatchEntry {
            key: b"d",
            expectation: Some(Expectation::Absent),
            change: None,
        },
    ];

    #[test]
    fn every_entry_survives_the_wire() {
        let mut bytes = Vec::new();
        for entry in &ENTRIES {
            push_entry(&mut bytes, entry);
        }
        let mut rest = &bytes[..];
        for entry in ENTRIES {
            assert_eq!(next_entry(&mut rest), Some(entry));
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn an_entry_that_is_cut_off_or_says_nothing_is_none() {
        let mut bytes = Vec::new();
        push_entry(&mut bytes, &ENTRIES[0]);
        for size in 0..bytes.len() {
            assert_eq!(next_entry(&mut &bytes[..size]), None, "{size} bytes");
        }
        let nothing = BatchEntry {
            change: None,
            ..ENTRIES[0]
        };
        bytes.clear();
        push_entry(&mut bytes, &nothing);
        assert_eq!(next_entry(&mut &bytes[..]), None);
    }
}
