//! The history of the records that this node stamped itself, for the shards that it leads.
//!
//! ```text
//!   version     ... 40 | 41  42  43 | 44 45 46 | 47  48  --  50
//!   shard              |  a   b   a |          |  a   b       b       records that were moved, or came from elsewhere, are not here
//!              settled '            '-skipped--'             '        49 is missing, and 50 counts for no shard
//! ```
//!
//! One counter gives the versions of all shards of a log. Each of them is stamped in this log, and a batch becomes
//! durable after the batch before it. A missing version was therefore never acknowledged, and neither was any version
//! behind it: the history consists of the records before the first missing version. In each shard, a record was stamped
//! behind the record before it in the history. A record needs no byte for that.
//!
//! [`Versions`] has the facts that the records do not show: skipped versions, terms, and void records. The
//! [`Ledger`](crate::Ledger) keeps these facts durably. A scan makes the [`History`] with [`OwnRecords`]. While the
//! node stamps records, [`Unsettled`] knows the version up to which they are settled.
//!
//! Invariants, which the caller keeps:
//! - A row of the ledger is durable before a record that needs the row is stamped: a term before its first record,
//!   skipped versions before the first record behind them.
//! - Records become durable in the order of their versions. A segment that is freed keeps the last version that was
//!   given, and is freed only when all records up to that version are durable.
//! - No segment with a record above [`Versions::settled`] is freed, and no such record is moved.

mod proofs;
mod records;
mod unsettled;
mod versions;

pub use records::{History, Link, OwnRecords};
pub use unsettled::Unsettled;
pub(crate) use versions::VersionRow;
pub use versions::{OwnVerdict, Versions};
