//! Data structures as traversals without I/O.
//!
//! ```text
//!   step(nothing) ─▶ Read(places) ─▶ step(bytes) ─▶ Read(places) ─▶ step(bytes) ─▶ Done(end)
//!                                                       │
//!                                                       └─▶ Stale: another block lies there; begin again
//! ```
//!
//! A driver has access to memory and no rules. A reader's driver reads the memory of the back-end while transactions
//! are applied; a writer's driver reads it with the staged words over it; the back-end's reads its own. The end of a
//! traversal for a change holds everything that the change needs, and writes to a [`Draft`](crate::Draft).
//!
//! Invariants:
//! - A traversal trusts no byte without a tag. A tag covers content, place, generation and structure.
//! - The end of a traversal was true at one moment between its first and its last step, if the driver reads in that
//!   time.
//! - A look-up and a change end after a bounded number of steps, with any words that they read. A walk over a whole
//!   structure ends when it has read as much as the structure claims to hold.

mod audit;
mod contents;
mod in_call;
mod item;
mod key_change;
mod length;
mod lookup;
mod many;
mod reclaim;
mod results;
mod retired;
mod root;
mod rooted;
mod roots;
mod scrap;
mod structure;
mod tag;
mod travel;
mod traversal;
mod watched;

pub mod btree;
pub mod classic;
pub mod hash;
pub mod sequence;

pub use audit::Audit;
pub use contents::Contents;
pub use in_call::{MemoryInCall, Remembered};
pub use item::{ITEM_HEADER_SIZE, KEY_SIZE_MAX, VALUE_SIZE_MAX};
pub(crate) use item::{ItemRead, ItemReader};
pub use length::Length;
pub use lookup::{Lookup, PageOf, Walk};
pub use many::Many;
pub(crate) use reclaim::Reclaim;
pub(crate) use results::{NewResult, Repeated, Results, table_size as results_size};
pub use root::Root;
pub use rooted::Rooted;
pub use roots::{CreateFault, Description, NAME_SIZE_MAX, Named, ReadRoots, Roots, StructureKind};
pub(crate) use structure::Read;
pub use structure::{ExecuteFault, Structure};
pub use tag::TagKey;
pub(crate) use travel::DecodedNode;
pub use travel::{Plan, Travel};
pub use traversal::{Answer, Place, Places, Stale, Step, Traversal, drive};
pub use watched::Watched;
