//! A mirror: another server that holds a durable copy of a back-end's pool, and can become the back-end.
//!
//! ```text
//!   back-end  records, words ── WRITE ──▶ the same places of the mirror's pool ── settled ──▶ durable in both ──▶ applied, answered
//!   front-end records ───────── WRITE ──▶ the same place of both logs ─────────── READs ────▶ durable in both ──▶ the ticket ends
//!             lost for good            mirror: lease over ─▶ window closed ─▶ next generation, durably ─▶ opened as after a power cut
//! ```
//!
//! The back-end also makes everything durable in the mirror before anything depends on it: records, horizons,
//! descriptors, names, the uses of slabs, and the words of trimmed transactions. The calls come one after the other. So
//! at every moment the mirror holds a state that a power cut could have left in the back-end's own pool, and a
//! promotion is the recovery that follows a power cut.
//!
//! Invariants:
//! - Everything that was acknowledged, or seen by a reader, is durable in both copies.
//! - A mirror becomes the back-end after the lease of its source is over, and the windows of its source and of the
//!   source's front-ends are closed.
//! - A back-end that was bound to a mirror goes on with that mirror, or is detached from it ([`detach()`]).

mod admissions;
mod bytes;
mod detach;
mod expulsions;
mod link;
mod promote;
mod server;

pub use detach::{DetachError, detach};
pub(crate) use link::LINK_SENDS;
pub use link::{AttachError, MirrorLink};
pub use promote::{PromoteError, promote};
pub use server::{MirrorServer, Promoted, generation_of_mirror};
