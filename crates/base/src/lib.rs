//! The parts that every crate of Stonecast shares: sizes, hashes, seeded random numbers and the
//! error for corrupt bytes.
//!
//! The crate has no input or output, no clock, no thread, and no global state. The feature `mutants` is for tests: they
//! plant bugs and print how each bug was found. Everything else is a pure function of its arguments, so the simulated
//! world and a real server compute the same bytes.
#![forbid(unsafe_code)]

mod corruption;
pub mod hash;
#[cfg(feature = "mutants")]
pub mod hunts;
pub mod mutants;
mod random;
mod span;

pub use corruption::Corruption;
pub use random::{Random, SliceExt, random_from_seed};
pub use span::Span;

/// Bytes of a cache line: the grain of write-back, of a bucket and of the log.
pub const LINE_SIZE: usize = 64;
/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;

/// Nanoseconds since an arbitrary start chosen by the clock's owner: wall time on real providers, virtual time in the
/// simulated world. Only differences are meaningful.
pub type Nanoseconds = u64;
