//! Persistent memory: regions of bytes that other processes and devices may change at any time, the ways to make such
//! bytes durable, and the pool in which a store lives.
//!
//! ```text
//!   Pool (header, secrets, geometry, checks)          one type, for every medium
//!     | asks
//!   Backing (log, space, blobs, volatile memory)      a directory of files, a DAX device, a simulated medium
//!     | hands out
//!   PersistentRegion: Region + persist                ordinary file, DAX mapping, declared battery, volatile
//! ```
//!
//! Invariants:
//! - Memory of a region is never borrowed. It is copied in and out, or read and written as aligned 8-byte words,
//!   because a network card or another process may write it at the same moment.
//! - After a power cut, the content of bytes that no [`persist_spans`] has covered is undefined down to 8-byte words.
//! - Nothing about the platform is guessed. A property that is neither declared nor detected counts as absent.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "Stonecast runs on Linux on x86-64: copies and write-back are written for that processor"
);

mod appended_log;
mod backing;
mod compare;
mod copy;
mod dax;
mod dax_facts;
mod description_lock;
mod detected_domain;
mod directory;
mod earlier_writers;
mod error;
mod file_sync;
mod futex;
mod mapped_piece;
mod mapped_region;
mod mapping;
mod means;
#[cfg(test)]
mod not_run;
mod open;
mod persist;
mod persistent_mapping;
mod place;
mod platform;
mod pool;
mod power_cycle;
mod region;
mod span_set;
mod time_stamp;
mod volatile_memory;
mod write_back;

pub use appended_log::AppendedLog;
pub use backing::{Backing, Blob, LogOptions, Prepared};
pub use compare::equal_upper_halves;
pub use dax::DaxBacking;
pub use detected_domain::{DetectedDomain, detect_domain};
pub use directory::DirectoryBacking;
pub use error::{MediaError, PersistError};
pub use futex::{FutexWait, FutexWord};
pub use mapped_piece::{MappedPiece, MappedWord};
pub use mapped_region::{MappedRegion, Sealing, Writable};
pub use open::{create_backing, inspect_backing, open_backing};
pub use persist::{Means, PersistCounts, PersistState, PersistentRegion, persist_spans};
pub use place::{Keeping, Place, examine};
pub use platform::{
    Ddio, DeclaredPlatform, Durability, PersistenceDomain, ReceiveBuffers, UnknownName,
};
pub use pool::{
    CAPACITY_MAX, Content, Growth, Membership, MembershipCell, OpenMode, Pool, PoolOptions,
    RecordFeature, RecordFeatures, Repair, SEGMENT_COUNT_MIN, SEGMENT_SIZE_DEFAULT,
    SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN, SHARDS_MAX, TimeMark, header_table, segment_size_default,
};
pub use region::{MappedPlace, Region, Share};
pub use time_stamp::time_stamp;
