//! The facts of a pool for tests.

use super::{LogFormat, Secret};

/// The facts of a pool for tests.
pub fn format(segment_size: u64, segment_count: u32) -> LogFormat {
    LogFormat {
        uuid: 0x1234_5678,
        tag_key: 0xfeed,
        secret: Some(Secret::new([1, 2])),
        segment_size,
        segment_count,
    }
}
