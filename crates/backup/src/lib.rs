//! Appends between nodes: the two halves by which primaries keep copies on backups, below any store.
//!
//! ```text
//!   primary of shards 1, 4, 9                            backup
//!     BackupLink   append, flush   --- SEND, READ --->   segments of its pool      no processor
//!                  report          <--- notices -----    Intake   look, settle     finds, makes durable, answers, fences
//! ```
//!
//! A store above drives the rules of `stonecast-replication` with the two halves: a primary takes the [`Report`]s of
//! its links, and a copy takes the entries that an [`Intake`] finds. Both share the [`SharedLedger`] of the pool.
//! `docs/design/0035-appends-between-nodes.md` has the reasons.
//!
//! Invariants:
//! - A reported record lies whole and durable in the backup's pool, by the plan for the declared platform.
//! - An intake hands each entry of an open stream on once, in the order of the stream.
//! - A peer is [silent](Silence::Silent) when no entry of the peer lands any more, and all landed entries were passed
//!   on.
//! - A sender that pays finds room: credits do not drift, however earlier sessions ended.
//! - No peer makes a side wait, or keep state, without a bound.
//!
//! After a crash of the backup, its next run finds every reported entry again that no floor settles, as the log of
//! appends promises. A crash of the primary leaves nothing of a link; entries that were not reported may be persisted
//! or not.
#![forbid(unsafe_code)]

mod entries;
mod hello;
mod intake;
mod ledger;
mod link;
mod notice;
mod stream;

pub use entries::Entries;
pub use hello::{Hello, Unheard};
pub use intake::{
    Attention, EndCause, Ended, Found, Holes, Intake, IntakeError, IntakeOptions, Lent, Pace, Pool,
    Silence,
};
pub use ledger::{Change, LedgerError, SharedLedger};
pub use link::{
    BackupLink, LinkEnded, LinkOptions, NoCreditInTime, NotLinked, NotSent, Posted, Report, Trouble,
};
pub use stream::StreamName;
