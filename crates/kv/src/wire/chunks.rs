//! Values in chunks: the record that names the chunks of a value, and the names of these.
//!
//! ```text
//!   head    key of the user      | size of the value 8 | upload 8 | size of a chunk 8 |
//!   chunk   | hash of the user's key 8 | upload 8 | number 4 |      as many bytes of the value, the last one fewer
//! ```
//!
//! The hash is the one from which the shard of the user's key follows, so a chunk lies in the same shard. No two
//! uploads have the same number, so no chunk is ever written twice. All numbers are little-endian. `docs/design/0049`
//! has the rules.

use stonecast_log::{CHUNK_SIZE_MAX, HEAD_SIZE};

use super::limits::{CHUNK_SIZE_MIN, VALUE_SIZE_MAX};

/// The name of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkName {
    /// The hash of the user's key in all shards together.
    pub whole: u64,
    /// The upload that wrote the chunk.
    pub upload: u64,
    /// The number of the chunk in the value, from 0.
    pub number: u32,
}

impl ChunkName {
    /// Bytes of a name.
    pub const SIZE: usize = 20;

    /// The key of the chunk's record.
    pub fn key(self) -> [u8; Self::SIZE] {
        let mut key = [0; Self::SIZE];
        key[..8].copy_from_slice(&self.whole.to_le_bytes());
        key[8..16].copy_from_slice(&self.upload.to_le_bytes());
        key[16..].copy_from_slice(&self.number.to_le_bytes());
        key
    }

    /// The name that `key` says, if it has the length of one.
    pub fn read(key: &[u8]) -> Option<Self> {
        let (whole, rest) = key.split_first_chunk()?;
        let (upload, rest) = rest.split_first_chunk()?;
        Some(Self {
            whole: u64::from_le_bytes(*whole),
            upload: u64::from_le_bytes(*upload),
            number: u32::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

/// The content of a record that names chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the value, at least one.
    pub size: u64,
    /// The upload that wrote the chunks.
    pub upload: u64,
    /// Bytes of each chunk but the last.
    pub chunk_size: u64,
}

impl Head {
    /// Chunks of a value, at most.
    pub const CHUNKS_MAX: u32 = VALUE_SIZE_MAX.div_ceil(CHUNK_SIZE_MIN) as u32;

    /// The value of the record.
    pub fn bytes(self) -> [u8; HEAD_SIZE] {
        let mut bytes = [0; HEAD_SIZE];
        for (into, word) in bytes
            .chunks_exact_mut(8)
            .zip([self.size, self.upload, self.chunk_size])
        {
            into.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The head that the value of a record says. `None`: no client writes these numbers.
    pub fn read(value: &[u8]) -> Option<Self> {
        let ([size, upload, chunk_size], []) = value.as_chunks::<8>() else {
            return None;
        };
        let head = Self {
            size: u64::from_le_bytes(*size),
            upload: u64::from_le_bytes(*upload),
            chunk_size: u64::from_le_bytes(*chunk_size),
        };
        let sizes = 1..=VALUE_SIZE_MAX as u64;
        let chunk_sizes = CHUNK_SIZE_MIN as u64..=CHUNK_SIZE_MAX as u64;
        let is_possible = sizes.contains(&head.size) && chunk_sizes.contains(&head.chunk_size);
        is_possible.then_some(head)
    }

    /// The names of all chunks, in order, beneath the user's key with that hash.
    pub fn names(self, whole: u64) -> impl Iterator<Item = ChunkName> {
        let count = self.size.div_ceil(self.chunk_size) as u32;
        (0..count).map(move |number| ChunkName {
            whole,
            upload: self.upload,
            number,
        })
    }

    /// Bytes of the chunk with that number.
    pub fn size_of(self, number: u32) -> usize {
        let from = u64::from(number) * self.chunk_size;
        self.chunk_size.min(self.size - from) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_names_as_many_chunks_as_make_up_its_value() {
        for (size, sizes) in [
            (1, vec![1]),
            (65_536, vec![65_536]),
            (65_537, vec![65_536, 1]),
            (200_000, vec![65_536, 65_536, 65_536, 3392]),
        ] {
            let head = Head {
                size,
                upload: 7,
                chunk_size: 65_536,
            };
            assert_eq!(Head::read(&head.bytes()), Some(head));
            let names: Vec<_> = head.names(5).collect();
            let found: Vec<_> = names.iter().map(|it| head.size_of(it.number)).collect();
            assert_eq!(found, sizes);
            for name in names {
                assert_eq!(ChunkName::read(&name.key()), Some(name));
            }
        }
    }

    /// Fails without the checks: a server would look for 2^64 chunks.
    #[test]
    fn a_head_with_impossible_numbers_is_none() {
        let head = |size, chunk_size| {
            let upload = 1;
            let head = Head {
                size,
                upload,
                chunk_size,
            };
            Head::read(&head.bytes())
        };
        assert!(head(1 << 24, 65_536).is_some());
        for (size, chunk_size) in [
            (0, 65_536),
            ((1 << 24) + 1, 65_536),
            (1 << 20, 0),
            (1 << 20, 1),
            (1 << 20, 1 << 20),
        ] {
            assert_eq!(head(size, chunk_size), None, "{size}, {chunk_size}");
        }
        assert_eq!(Head::read(&[1; 23]), None);
        assert_eq!(ChunkName::read(&[1; 19]), None);
        assert_eq!(ChunkName::read(&[1; 21]), None);
    }
}
