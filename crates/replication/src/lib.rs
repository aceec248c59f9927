//! The rules by which several nodes keep copies of a shard, without input, output, clock or thread.
//!
//! ```text
//!   entry     an entry in the log of a backup: header, tag, digest
//!   copy      one node's copy: gaps, horizon, entries to digest, the history of an heir
//!   primary   writes on their way, and the calls that wait for them
//!     peers     copies that are awaited, copies that are named, joiners
//!     sending   the progress of one node, by connection
//!     joining   a node on its way from nothing to everything
//!   takeover  the way of an heir, from its durable epoch until it serves
//!
//!   copy ──(heir of a new term)──▶ takeover ──(serve)──▶ primary ──(resign, hand_over)──▶ copy
//! ```
//!
//! The crate knows no record, no connection and no medium: a body is opaque, and the store that drives the crate says
//! which entries arrived, which are durable and whether a lease holds. The simulated world and real processes therefore
//! run the same rules.
//!
//! # Example
//!
//! A primary makes an entry in place, and the backup reads it from a copy of its own memory:
//!
//! ```
//! use stonecast_cluster::{Epoch, Nonce};
//! use stonecast_replication::{AppendKey, Entry, HEADER_SIZE, Header, Kind};
//!
//! let nonce = Nonce::from_u128(7);
//! let key_of_backup = AppendKey::new([1, 2], nonce);
//! let entry = Entry { shard: 7, term: Epoch(3), version: 41, previous: 38, horizon: 36, kind: Kind::Record };
//! let mut bytes = vec![0; HEADER_SIZE];
//! bytes.extend_from_slice(b"a record");
//! entry.write_header(&key_of_backup, &mut bytes);
//!
//! let header = Header::read(&key_of_backup, bytes.first_chunk().unwrap())?;
//! header.check_body(&key_of_backup, &bytes[HEADER_SIZE..][..header.body_size])?;
//! assert_eq!(header.entry, entry);
//! # Ok::<(), stonecast_replication::NotAnEntry>(())
//! ```
#![forbid(unsafe_code)]

mod copy;
mod entry;
mod joining;
mod peers;
mod primary;
mod sending;
mod takeover;

pub use copy::{Incomplete, LaterTerm, NotAdopted, ShardCopy, Taken};
pub use entry::{
    AppendKey, BODY_SIZE_MAX, Entry, GRAIN, HEADER_SIZE, Header, Kind, NotAnEntry, Piece,
};
pub use primary::{LeaseSays, NotStamped, Primary, Resigned, Settled};
pub use sending::{Connection, Report, ReportedOutOfOrder};
pub use stonecast_lineage::{Judgement, Lineage, Point};
pub use takeover::{Consent, Fence, Step, Takeover, TermNotNew};
