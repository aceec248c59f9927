//! The published workloads of YCSB, from a seed: the choice of keys, the choice between read and update, and the names
//! and values of keys.
//!
//! ```text
//!   Zipfian, ScrambledZipfian, Latest      published generators: a number in 0..1 -> a key's number
//!   Chooser                                one of them, or uniform, with a random number generator
//!   KeyName                                key's number -> "user6284781860667377211"
//!   value_of                               key's number -> the bytes of its value
//!   Sequence                               operations drawn beforehand, with names
//! ```
//!
//! A reader steps through a sequence in memory order, so a measured loop pays neither for powers nor for key names. The
//! known answers come from the classes of `site.ycsb:core:0.17.0`.
//!
//! Invariants: no clock, no thread, and no random source but the seed. Powers are computed in software ([`libm`]), so a
//! seed means the same operations on every machine.
#![forbid(unsafe_code)]

mod chooser;
mod key;
mod latest;
mod mix;
mod scrambled;
mod sequence;
mod value;
mod zipfian;

pub use chooser::{Chooser, Distribution};
pub use key::{KEY_NAME_SIZE_MAX, KeyName, fnv_hash};
pub use latest::Latest;
pub use mix::Mix;
pub use scrambled::ScrambledZipfian;
pub use sequence::{Cursor, Operation, Sequence, SequenceOptions};
pub use value::{ValuePool, value_of};
pub use zipfian::{THETA, Zipfian, zeta};
