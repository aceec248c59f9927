//! The bytes of a pool header.

use std::fmt::Write as _;
use std::mem::offset_of;

use stonecast_base::hash::xxh3_128;
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::backing::HEADER_COPY_SIZE;

/// First bytes of every pool header, of any version.
pub(crate) const MAGIC: [u8; 8] = *b"stonpool";
/// The format that this program writes, and the newest that it reads.
pub(super) const VERSION: u32 = 2;

/// The incompatible features that this program knows, as bits.
pub(super) const INCOMPATIBLE: u64 = INCOMPATIBLE_PUBLISHED
    | INCOMPATIBLE_APPENDED
    | INCOMPATIBLE_CLUSTER
    | INCOMPATIBLE_MEMBER
    | INCOMPATIBLE_STRUCTURES
    | INCOMPATIBLE_EXPIRY
    | INCOMPATIBLE_BATCHES
    | INCOMPATIBLE_CHUNKS;
/// Clients have published: the log may hold void records.
pub(super) const INCOMPATIBLE_PUBLISHED: u64 = 1;
/// Segments may be filled by appends.
pub(super) const INCOMPATIBLE_APPENDED: u64 = 2;
/// A ledger says which records count, and the header has the seed of the cluster.
pub(super) const INCOMPATIBLE_CLUSTER: u64 = 4;
/// The pool is that of a node, and the header has the configuration in which the node last was.
pub(super) const INCOMPATIBLE_MEMBER: u64 = 8;
/// The log holds data structures, and no records of keys and values.
pub(super) const INCOMPATIBLE_STRUCTURES: u64 = 16;
/// Records may have an expiry, and the header has the mark of the server's time.
pub(super) const INCOMPATIBLE_EXPIRY: u64 = 32;
/// Records may be of a batch, and count only together.
pub(super) const INCOMPATIBLE_BATCHES: u64 = 64;
/// Records may hold a chunk of a value, or name chunks.
pub(super) const INCOMPATIBLE_CHUNKS: u64 = 128;
/// The compatible features that this program knows, as bits.
pub(super) const COMPATIBLE: u64 = COMPATIBLE_HOME | COMPATIBLE_SHARDS;
/// The header has the home of the pool. A program that does not know the feature leaves the field unchanged.
pub(super) const COMPATIBLE_HOME: u64 = 1;
/// The header has the number of shards. A program that does not know the feature serves all keys in one index: shards
/// change nothing in the log.
pub(super) const COMPATIBLE_SHARDS: u64 = 2;

/// One copy of the header. The first 32 bytes are the same in every version, so that a header of a newer version can be
/// told from damage.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct HeaderBytes {
    pub magic: [u8; 8],
    pub version: U32,
    pub size: U32,
    pub checksum: U128,
    pub incompatible: U64,
    pub read_only_compatible: U64,
    pub compatible: U64,
    pub generation: U64,
    pub uuid: [u8; 16],
    pub capacity: U64,
    pub segment_size: U64,
    pub persistence_domain: u8,
    pub ddio: u8,
    pub receive_buffers: u8,
    pub durability: u8,
    pub clean: u8,
    pub reserved_flags: [u8; 3],
    pub opening: U32,
    pub reserved_opening: U32,
    pub power_cycle: U128,
    pub tag_key: U64,
    pub secret: [U64; 2],
    pub home: U128,
    pub shards: U32,
    pub reserved_shards: U32,
    pub cluster_seed: U64,
    pub cluster: U128,
    pub epoch: U64,
    pub attempt: U128,
    pub lease_duration: U64,
    pub lease_tick: U64,
    pub lease_drift: U32,
    pub reserved_lease: U32,
    pub time_mark: U64,
    pub reserved: [u8; 3840],
}

/// Bytes of one copy.
pub(super) const SIZE: usize = size_of::<HeaderBytes>();

/// A field as the format page shows it.
pub(super) struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
    pub meaning: &'static str,
}

const fn size_of_field<T>(_: fn(&HeaderBytes) -> &T) -> usize {
    size_of::<T>()
}

macro_rules! fields {
    ($($name:ident: $meaning:literal,)+) => {
        /// Every byte of the header, in order.
        pub(super) const FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            offset: offset_of!(HeaderBytes, $name),
            size: size_of_field(|header| &header.$name),
            meaning: $meaning,
        },)+];
    };
}

fields! {
    magic: "`stonpool`",
    version: "format version, 2",
    size: "bytes of this copy, 4096",
    checksum: "XXH3-128 over the copy, with these 16 bytes taken as zero",
    incompatible: "feature bits; a program that does not know one of them refuses the pool. Bit 0: clients have published, so the log may hold void records. Bit 1: other nodes append, so the log may hold segments that appends fill. Bit 2: a pool of a cluster, so a ledger says which records count, and `cluster seed` is there. Bit 3: the pool of a node, which must not serve it in an earlier configuration, and the fields from `cluster` to `lease drift` are there. Bit 4: the log holds data structures (`structures.md`), and no keys and values. Bit 5: records may have an expiry, and `time mark` is there. Bit 6: records may be of a batch, whose records count together or not at all. Bit 7: records may hold a chunk of a value, or name the chunks of one",
    read_only_compatible: "feature bits; a program that does not know one of them reads the pool and writes nothing",
    compatible: "feature bits; a program that does not know one of them keeps it and goes on. Bit 0: `home` is there. Bit 1: `shards` is there",
    generation: "grows by 1 with each change of the header; of two valid copies the one with the higher generation counts",
    uuid: "names the pool; bytes in the order of its text, version 4",
    capacity: "bytes of the log; a multiple of the segment size, at least 4 segments, at most 2^40",
    segment_size: "bytes of a segment; a power of two, 2^18 to 2^30",
    persistence_domain: "declared: 0 volatile, 1 page file, 2 memory (DMP), 3 memory hierarchy (MHP), 4 whole system (WSP)",
    ddio: "declared: 0 on, 1 off",
    receive_buffers: "declared: 0 in DRAM, 1 in persistent memory",
    durability: "promised: 0 survives processes, 1 survives power loss too",
    clean: "1: closed in order, the checkpoint, if there is one, is the index; 0: being served, or the server died",
    reserved_flags: "zero",
    opening: "counts openings for serving, from 1",
    reserved_opening: "zero",
    power_cycle: "identifier of the machine's start in which the pool was last recovered for serving",
    tag_key: "seed of the record tags; readers know it",
    secret: "key of the commit tags; the server knows it, and clients that it lets publish",
    home: "the place in which the pool was last opened for serving, or, of a copy, recovered: creation time of the log file in ns and its inode number; 0 where that cannot be told",
    shards: "number of even ranges of key hashes, each with an index of its own, 2 to 32; 0 without bit 1: one",
    reserved_shards: "zero",
    cluster_seed: "seed of the hashes of keys, the same in all pools of a cluster; 0 without incompatible bit 2: the tag key is the seed",
    cluster: "name of the cluster to which the node of the pool belongs; this field and those up to `lease drift` are 0 without incompatible bit 3",
    epoch: "the latest configuration in which the node was",
    attempt: "number of the attempt that stored that configuration",
    lease_duration: "longest lease that the node may have granted, in ns",
    lease_tick: "greatest age of the time that a clock shows, under that lease, in ns",
    lease_drift: "greatest deviation of a clock's rate, under that lease, in millionths",
    reserved_lease: "zero",
    time_mark: "the server's time, in ms since 1970 in UTC, does not exceed this mark, and goes on from the mark or above after a restart; 0 without incompatible bit 5",
    reserved: "zero, unless unknown read-only compatible or compatible bits are set; then kept as found",
}

// Checks the numbers on the format page against the types.
const _: () = {
    assert!(SIZE as u64 == HEADER_COPY_SIZE && SIZE == 4096);
    assert!(offset_of!(HeaderBytes, version) == 8 && offset_of!(HeaderBytes, size) == 12);
    assert!(offset_of!(HeaderBytes, checksum) == 16 && offset_of!(HeaderBytes, incompatible) == 32);
    assert!(offset_of!(HeaderBytes, generation) == 56 && offset_of!(HeaderBytes, uuid) == 64);
    assert!(
        offset_of!(HeaderBytes, capacity) == 80
            && offset_of!(HeaderBytes, persistence_domain) == 96
    );
    assert!(offset_of!(HeaderBytes, clean) == 100 && offset_of!(HeaderBytes, opening) == 104);
    assert!(offset_of!(HeaderBytes, power_cycle) == 112 && offset_of!(HeaderBytes, tag_key) == 128);
    assert!(offset_of!(HeaderBytes, secret) == 136 && offset_of!(HeaderBytes, home) == 152);
    assert!(
        offset_of!(HeaderBytes, shards) == 168 && offset_of!(HeaderBytes, reserved_shards) == 172
    );
    assert!(
        offset_of!(HeaderBytes, cluster_seed) == 176 && offset_of!(HeaderBytes, time_mark) == 248
    );
    let mut next = 0;
    let mut index = 0;
    while index < FIELDS.len() {
        assert!(
            FIELDS[index].offset == next,
            "a field is missing from the table, or out of order"
        );
        next += FIELDS[index].size;
        index += 1;
    }
    assert!(next == SIZE);
};

/// The checksum that a copy should have. `bytes` has at least the 32 bytes that all versions share.
pub(super) fn checksum(bytes: &[u8]) -> u128 {
    const FIELD: std::ops::Range<usize> =
        offset_of!(HeaderBytes, checksum)..offset_of!(HeaderBytes, incompatible);
    let mut bytes = bytes.to_vec();
    bytes[FIELD].fill(0);
    xxh3_128(&bytes)
}

/// The table of the header, as printed in `docs/formats/pool.md`.
pub fn header_table() -> String {
    let mut table =
        String::from("| offset | size | field | meaning |\n| --- | --- | --- | --- |\n");
    for Field {
        name,
        offset,
        size,
        meaning,
    } in FIELDS
    {
        let name = name.replace('_', " ");
        writeln!(table, "| {offset} | {size} | {name} | {meaning} |")
            .expect("writing to a String cannot fail");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_page_shows_the_table_of_the_types() {
        let page = include_str!("../../../../docs/formats/pool.md");
        let (_, rest) = page
            .split_once("<!-- header table -->\n")
            .expect("the page has the first marker");
        let (shown, _) = rest
            .split_once("<!-- end -->")
            .expect("the page has the second marker");
        assert!(
            shown == header_table(),
            "put this between the markers of docs/formats/pool.md:\n{}",
            header_table()
        );
    }
}
