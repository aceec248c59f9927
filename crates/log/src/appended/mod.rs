//! The log of appends: segments that other nodes fill, without this node's processor.
//!
//! ```text
//!   segment  | header | seal | seal | header | ledger | ledger |  entries, as they arrive ...       |
//!            '---- 4 units of 64 bytes -----'                  ^ first unit of the buffer
//!
//!                     Turn: ledger, header             ArrivalScan                  Turn
//!   blank segment -----------------------> posted ----------------> consumed ------------> blank again
//!                     durable at each step    entries, in order of place      everything below the floors
//! ```
//!
//! A segment of this kind is one receive buffer. Its header says the kind, so recovery never takes it for a segment of records,
//! and a segment of records never for one of these. Entries prove themselves ([`EntryFormat`]); their place proves nothing, as
//! the receiver's device chose it. So a scan may meet what is no news: bytes of an earlier use, and entries inside values. The
//! [`Lineages`] say what counts, and the [`Ledger`] keeps them durably at the start of each of these segments.
//!
//! Invariants:
//! - A segment is posted when a ledger with the histories of that moment is durable in it, and no stale byte in it is an entry that
//!   counts, or that a later history may make count ([`Turn`]).
//! - A unit takes part in one message in each use. So the place of a whole entry that counts needs no second look, unless a
//!   longer entry begins before it.
//! - A segment is used again when each entry found in it is settled by the floors ([`Buffers::reusable`]). Whoever raises a floor has
//!   written durably elsewhere what is needed of the entries at or below it.
//!
//! A crash leaves a segment in one generation or the other, with the ledger of that generation. Entries that were persisted
//! are found; others may be found or not.

mod buffers;
mod entry;
mod ledger;
mod lineages;
mod rows;
mod scan;
mod stale;
mod turn;

pub use buffers::{Buffers, Consumption, Search};
pub use entry::{EntryFacts, EntryFormat};
#[cfg(test)]
pub(crate) use ledger::LEDGER_FIELDS;
pub use ledger::{Ledger, LedgerFull, first_unit};
pub use lineages::Lineages;
pub use scan::{Arrival, ArrivalScan};
pub use stale::Stale;
pub use turn::{Turn, Turned, mend_header};
