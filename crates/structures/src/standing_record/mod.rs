//! The standing record: which of two pools with one content is the back-end's, as both sides agree in a store.
//!
//! ```text
//!   document    record <-> bytes, for people to read, with a format version and a tag
//!   judgement   record and pool -> the pool may be served, promoted, detached, or not       pure
//!   fault       the reasons why a record stops a server or a command
//!   register    reads and swaps the record, and notes its findings
//!   store       StandingStore: the register beside the server of a back-end or of a mirror
//! ```
//!
//! Only the pool that a generation names as its back-end writes that generation into the record: the mirror by a
//! promotion, the pool of the back-end by a detachment. Both swap the same revision, so only one of the two happens.
//! The record decides who may follow; the lease and the window of the back-end at its mirror decide when.
//!
//! Invariants:
//! - A mirror that is whole is named by the record of its generation.
//! - Each generation has one back-end: the pool that the record named first.
//!
//! `docs/design/0046-mirrors.md` has the order of all writes and its proof.

mod document;
mod fault;
mod judgement;
mod register;
mod store;

pub use document::StandingRecord;
pub use fault::{StandingFault, StandingRecordError};
pub(crate) use judgement::Asking;
pub(crate) use register::Claim;
pub(crate) use store::OpenError;
pub use store::StandingStore;
