//! The limits of keys and values, as numbers that the header can show.

/// The longest key, in bytes. The shortest has 1.
pub const STONECAST_KEY_SIZE_MAX: usize = 1024;
/// The longest value, in bytes. The shortest has 0.
pub const STONECAST_VALUE_SIZE_MAX: usize = 16_777_216;

const _: () = assert!(STONECAST_KEY_SIZE_MAX == stonecast::KEY_SIZE_MAX);
const _: () = assert!(STONECAST_VALUE_SIZE_MAX == stonecast::VALUE_SIZE_MAX);
