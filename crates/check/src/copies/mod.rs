//! Records with a copy on each of several machines, as a subject of the checks: the smallest store of several nodes. A
//! client writes a record to every machine by the plan for its platform. The write is done when all machines have
//! persisted the record.
//!
//! ```text
//!   client ── persist ──▶ responder 0 ── memory 0      slot of key k: two places, used in turn
//!         \── persist ──▶ responder 1 ── memory 1      recovery: the newest whole record of any machine,
//!                                                      copied to every machine that lacks it
//! ```
//!
//! A replicated store stands on the same sessions and plans. These runs show that the checks notice a loss of several
//! machines together.

mod client;
mod drive;
mod memory;
mod setup;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use drive::run;
pub(crate) use setup::Setup;
