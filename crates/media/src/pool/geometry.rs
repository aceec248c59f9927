//! Limits on the sizes of a pool and its segments.

use stonecast_base::{GIB, KIB, MIB};

/// Smallest segment, in bytes: a smaller one would spend its space on headers and its time on leases.
pub const SEGMENT_SIZE_MIN: u64 = 256 * KIB;
/// Largest segment, in bytes: a segment is addressed by 24 bits of 64-byte units.
pub const SEGMENT_SIZE_MAX: u64 = GIB;
/// Segment size of a large pool if its owner names none; see [`segment_size_default`].
pub const SEGMENT_SIZE_DEFAULT: u64 = 4 * MIB;
/// Fewest segments of a small pool if its owner names no segment size. The reserve and the loss at the ends of segments
/// that are being written count in whole segments: 32 of them leave room for 85 % of live data.
const SEGMENT_COUNT_DEFAULT_MIN: u64 = 32;
/// Fewest segments of a pool: some for writes, the last ones reserved for deletes.
pub const SEGMENT_COUNT_MIN: u64 = 4;
/// The most shards of a pool: each has an index, and each client that reads a shard has a window on that index.
pub const SHARDS_MAX: u32 = 64;
/// Largest pool, in bytes: an index word has 34 bits for a 64-byte unit.
pub const CAPACITY_MAX: u64 = (1 << 34) * 64;

/// Segment size in bytes of a pool of `capacity` bytes if its owner names none: [`SEGMENT_SIZE_DEFAULT`], or in smaller
/// pools the largest power of two that gives 32 segments, but at least [`SEGMENT_SIZE_MIN`].
pub const fn segment_size_default(capacity: u64) -> u64 {
    let mut size = SEGMENT_SIZE_DEFAULT;
    while size > SEGMENT_SIZE_MIN && capacity / size < SEGMENT_COUNT_DEFAULT_MIN {
        size /= 2;
    }
    size
}

const _: () = {
    assert!(segment_size_default(MIB) == 256 * KIB);
    assert!(segment_size_default(16 * MIB) == 512 * KIB);
    assert!(segment_size_default(64 * MIB) == 2 * MIB);
    assert!(segment_size_default(100 * MIB) == 2 * MIB);
    assert!(segment_size_default(128 * MIB) == SEGMENT_SIZE_DEFAULT);
    assert!(segment_size_default(CAPACITY_MAX) == SEGMENT_SIZE_DEFAULT);
};

/// Checks the number of shards of a pool. The error is a phrase for people that states the allowed numbers.
pub(super) fn check_shards(shards: u32) -> Result<(), String> {
    match (1..=SHARDS_MAX).contains(&shards) {
        true => Ok(()),
        false => Err(format!("1 to {SHARDS_MAX} shards")),
    }
}

/// Checks the sizes of a pool. The error is a phrase for people that states the allowed sizes.
pub(super) fn check_geometry(capacity: u64, segment_size: u64) -> Result<(), String> {
    if !segment_size.is_power_of_two()
        || !(SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&segment_size)
    {
        return Err(format!(
            "a segment size that is a power of two from {SEGMENT_SIZE_MIN} to {SEGMENT_SIZE_MAX} bytes"
        ));
    }
    let least = SEGMENT_COUNT_MIN * segment_size;
    if !capacity.is_multiple_of(segment_size) || !(least..=CAPACITY_MAX).contains(&capacity) {
        return Err(format!(
            "a capacity that is a multiple of {segment_size} from {least} to {CAPACITY_MAX} bytes"
        ));
    }
    Ok(())
}
