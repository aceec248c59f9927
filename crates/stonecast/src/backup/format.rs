//! The bytes of a backup; see `docs/formats/backup.md`.

use stonecast_base::hash::xxh3_64;
use stonecast_kv::limits::{KEY_SIZE_MAX, VALUE_SIZE_MAX};
use zerocopy::byteorder::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(super) const MAGIC: [u8; 8] = *b"stonebup";
pub(super) const FORMAT: u32 = 1;

/// The state that a backup has, and the time of the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The UUID of the pool.
    pub pool: u128,
    /// The version on which the backup is based; 0: a full backup.
    pub base: u64,
    /// The version of the state.
    pub version: u64,
    /// Keys of the state.
    pub keys: u64,
    /// The moment at which the backup was begun, in milliseconds since 1970 in UTC, by the clock of the program; 0:
    /// not known.
    pub made_ms: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FileHeader {
    pub magic: [u8; 8],
    pub format: U32,
    pub reserved: U32,
    pub pool: U128,
    pub base: U64,
    pub version: U64,
    pub keys: U64,
    pub made_ms: U64,
    /// XXH3-64 of all bytes before.
    pub checksum: U64,
}

pub(super) const FILE_HEADER_SIZE: usize = size_of::<FileHeader>();

impl FileHeader {
    pub fn of(identity: &Identity) -> Self {
        let mut header = Self {
            magic: MAGIC,
            format: U32::new(FORMAT),
            reserved: U32::ZERO,
            pool: U128::new(identity.pool),
            base: U64::new(identity.base),
            version: U64::new(identity.version),
            keys: U64::new(identity.keys),
            made_ms: U64::new(identity.made_ms),
            checksum: U64::ZERO,
        };
        header.checksum = U64::new(header.computed());
        header
    }

    pub fn computed(&self) -> u64 {
        let (covered, _) = self
            .as_bytes()
            .split_at(FILE_HEADER_SIZE - size_of::<U64>());
        xxh3_64(0, covered)
    }

    pub fn identity(&self) -> Identity {
        Identity {
            pool: self.pool.get(),
            base: self.base.get(),
            version: self.version.get(),
            keys: self.keys.get(),
            made_ms: self.made_ms.get(),
        }
    }
}

/// The header of a block. Its content follows.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct BlockHeader {
    /// XXH3-64 of the rest of the header and of the content, under a seed of the file and of the place.
    pub checksum: U64,
    pub kind: U32,
    pub size: U32,
}

pub(super) const BLOCK_HEADER_SIZE: usize = size_of::<BlockHeader>();

/// Versions that the base has: each as the difference from the one before, in LEB128; the first from 0.
pub(super) const RETAINED: u32 = 1;
/// Records, one after the other.
pub(super) const RECORDS: u32 = 2;
/// The end of the backup.
pub(super) const END: u32 = 3;

/// Bytes after which a block is written.
pub(super) const BLOCK_FULL: usize = 256 << 10;
/// Bytes of the longest content: a full block, and the longest record.
pub(super) const BLOCK_MAX: usize = BLOCK_FULL + RECORD_MAX;
const RECORD_MAX: usize = size_of::<RecordStart>() + KEY_SIZE_MAX + VALUE_SIZE_MAX;

/// The start of a record; key and value follow.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RecordStart {
    pub version: U64,
    /// Milliseconds since 1970; 0: the key does not expire.
    pub expires_ms: U64,
    pub key_size: U32,
    pub value_size: U32,
}

/// The content of the last block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FileEnd {
    pub retained: U64,
    pub records: U64,
}

/// The checksum of the block at `offset` of the file with this header.
pub(super) fn checksum(of_file: u64, offset: u64, covered: &[u8]) -> u64 {
    xxh3_64(
        of_file ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        covered,
    )
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_page_of_the_format_agrees_with_the_types() {
        let page = include_str!("../../../../docs/formats/backup.md");
        let rows = [
            (offset_of!(FileHeader, magic), 8, "magic bytes `stonebup`"),
            (offset_of!(FileHeader, format), 4, "format: 1"),
            (offset_of!(FileHeader, reserved), 4, "zero"),
            (offset_of!(FileHeader, pool), 16, "UUID of the pool"),
            (offset_of!(FileHeader, base), 8, "version on which"),
            (offset_of!(FileHeader, version), 8, "version of the state"),
            (offset_of!(FileHeader, keys), 8, "keys of the state"),
            (offset_of!(FileHeader, made_ms), 8, "begin of the backup"),
            (
                offset_of!(FileHeader, checksum),
                8,
                "XXH3-64 of bytes 0 to 64",
            ),
            (
                offset_of!(BlockHeader, checksum),
                8,
                "XXH3-64 of bytes 8 to 16",
            ),
            (offset_of!(BlockHeader, kind), 4, "kind"),
            (offset_of!(BlockHeader, size), 4, "bytes of the content"),
        ];
        for (offset, size, what) in rows {
            let row = format!("| {offset} | {size} | {what}");
            assert!(page.contains(&row), "{row}");
        }
        let sizes = (
            FILE_HEADER_SIZE,
            BLOCK_HEADER_SIZE,
            size_of::<RecordStart>(),
        );
        assert_eq!(sizes, (72, 16, 24));
    }
}
