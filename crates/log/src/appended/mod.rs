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
//! A segment of this kind is one receive buffer. Its header says the kind, so recovery never confuses it with a segment
//! of records. Entries prove themselves ([`EntryFormat`]); their place proves nothing, because the receiver's device
//! chose it. A scan may therefore meet entries that are no news: bytes of an earlier use, and entries inside values.
//! The [`Lineages`] say which entries count, and the [`Ledger`] keeps the lineages durably at the start of each of
//! these segments.
//!
//! Invariants:
//! - A segment is posted when a ledger with the histories of that moment is durable in it, and no stale byte in it is
//!   an entry that counts, or that a later history may make count ([`Turn`]).
//! - A unit belongs to one message in each use. The place of a whole entry that counts therefore needs no second look,
//!   unless a longer entry begins before it.
//! - A segment is used again when each entry found in it is settled by the floors ([`Buffers::reusable`]). A store
//!   raises a floor after it has durably written elsewhere everything that it needs of the entries at or below the
//!   floor.
//!
//! A crash leaves a segment in one generation or the other, with the ledger of that generation. A scan finds all
//! entries that were persisted, and may find others.

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
pub use ledger::{Ledger, LedgerFull, check_ledger_room, first_unit};
pub use lineages::Lineages;
pub use scan::{Arrival, ArrivalScan, Bounds};
pub use stale::Stale;
pub use turn::{Turn, Turned, mend_header};
