//! Log entries.
//!
//! ```text
//!   | checksum 4 | value size 2 | shard 2 | version 8 | key 8 | value | 0.. |      a multiple of 64 bytes
//! ```
//!
//! The publication names the parts (operation, object, checksum, version, shard) and no widths. An object is a key of 8
//! bytes, as in the artefacts of Clover and HermesKV, and a value. A deletion has no value and the size 65,535.

/// Bytes before the value: 16 of the entry and the key.
pub(crate) const HEADER_SIZE: usize = 24;
/// Entries begin at multiples of this many bytes: the stride of the receive buffers.
pub(crate) const UNIT: usize = 64;
/// Bytes of the longest entry, which a message carries in one packet. The designs are for small objects.
pub(crate) const ENTRY_SIZE_MAX: usize = 15 * UNIT;
/// Bytes of the longest value.
pub(crate) const VALUE_SIZE_MAX: usize = ENTRY_SIZE_MAX - HEADER_SIZE;
const DELETED: u16 = u16::MAX;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub shard: u16,
    pub version: u64,
    pub key: u64,
    /// `None`: the key is deleted.
    pub value: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// The bytes of the entry.
    pub fn encode(&self) -> Vec<u8> {
        let value = self.value.unwrap_or_default();
        let size = self.value.map_or(DELETED, |value| value.len() as u16);
        let mut bytes = Vec::with_capacity((HEADER_SIZE + value.len()).next_multiple_of(UNIT));
        bytes.extend([0; 4]);
        bytes.extend(size.to_le_bytes());
        bytes.extend(self.shard.to_le_bytes());
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.key.to_le_bytes());
        bytes.extend(value);
        let checksum = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
        bytes
    }

    /// The entry at the start of `bytes`; `None` if no whole entry is there.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER_SIZE>()?;
        let size = u16::from_le_bytes([header[4], header[5]]);
        let value_size = if size == DELETED { 0 } else { size.into() };
        let content = bytes.get(4..HEADER_SIZE + value_size)?;
        let checksum = u32::from_le_bytes(*header.first_chunk().expect("a header is longer"));
        if crc32fast::hash(content) != checksum {
            return None;
        }
        let word = |at: usize| {
            u64::from_le_bytes(
                header[at..at + 8]
                    .try_into()
                    .expect("8 bytes of the header"),
            )
        };
        Some(Self {
            shard: u16::from_le_bytes([header[6], header[7]]),
            version: word(8),
            key: word(16),
            value: (size != DELETED).then(|| &content[HEADER_SIZE - 4..]),
        })
    }

    /// Units that the entry takes.
    pub fn units(&self) -> u32 {
        let value = self.value.map_or(0, <[u8]>::len);
        (HEADER_SIZE + value).div_ceil(UNIT) as u32
    }
}

/// The entries of a log's bytes with their offsets. Bytes that are no entry are passed unit by unit.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = (usize, Entry<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let here = at;
            let Some(entry) = Entry::parse(&bytes[here..]) else {
                at += UNIT;
                continue;
            };
            at += entry.units() as usize * UNIT;
            return Some((here, entry));
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: Option<&[u8]>) -> Entry<'_> {
        Entry {
            shard: 287,
            version: 1 << 40,
            key: 99,
            value,
        }
    }

    #[test]
    fn an_entry_survives_its_bytes_and_each_changed_byte_is_noticed() {
        for value in [None, Some(&[][..]), Some(&[7; 67][..])] {
            let written = entry(value);
            let mut bytes = written.encode();
            assert_eq!(bytes.len(), written.units() as usize * UNIT);
            assert_eq!(Entry::parse(&bytes), Some(written));
            for at in 0..HEADER_SIZE + value.map_or(0, <[u8]>::len) {
                bytes[at] ^= 1;
                assert_eq!(Entry::parse(&bytes), None, "byte {at}");
                bytes[at] ^= 1;
            }
        }
        assert_eq!(Entry::parse(&[0; UNIT]), None, "an unwritten place");
    }

    #[test]
    fn entries_behind_an_empty_place_are_found() {
        let first = entry(Some(&[1; 30])).encode();
        let second = entry(Some(&[2; 100])).encode();
        let bytes = [first, vec![0; 3 * UNIT], second].concat();
        let found: Vec<usize> = entries(&bytes).map(|(at, _)| at).collect();
        assert_eq!(found, [0, 4 * UNIT]);
    }
}
