//! What all parts of the log format share.

use std::fmt;

/// Grain of the log: records start and end at multiples of it. A cache line.
pub const UNIT_SIZE: u64 = 64;
/// Units at the start of a segment that hold no record: header, two seals, one reserved.
pub const SEGMENT_HEADER_UNITS: u32 = 4;
/// Bytes of a record before its key.
pub const RECORD_HEADER_SIZE: usize = 64;
/// Longest key in bytes: long enough for a path, short enough that a message holds it.
pub const KEY_SIZE_MAX: usize = 1 << 10;
/// Longest value in bytes: a quarter of the default segment, so that little is left over at the end of one.
pub const VALUE_SIZE_MAX: usize = 1 << 20;

/// The facts of a pool that every record depends on.
#[derive(Clone, Copy, Debug)]
pub struct LogFormat {
    /// The pool.
    pub uuid: u128,
    /// Seed of the tags. Known to every client, since readers check tags.
    pub tag_key: u64,
    /// Key of the stamps. Known to the server alone; `None` in clients, which cannot stamp or check stamps.
    pub secret: Option<Secret>,
    /// Bytes of a segment, a power of two.
    pub segment_size: u64,
    /// Number of segments.
    pub segment_count: u32,
}

impl LogFormat {
    pub(crate) fn secret(&self) -> [u64; 2] {
        self.secret.expect("stamps and seals are the server's business, and it has the secret").0
    }

    pub(crate) fn units(&self) -> u32 {
        (self.segment_size / UNIT_SIZE) as u32
    }
}

/// Key of the stamps. Never printed.
#[derive(Clone, Copy)]
pub struct Secret([u64; 2]);

impl Secret {
    /// The secret of a pool.
    pub fn new(words: [u64; 2]) -> Self {
        Self(words)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
