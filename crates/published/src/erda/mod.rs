//! Erda, as published.
//!
//! ```text
//!   put:  client -- WRITE_WITH_IMM(key) --> server: a place in the log, the word, answer
//!         client <------- place ---------- server
//!         client -- WRITE(object) ------->          acknowledged when the NIC has it
//!   get:  client -- READ(neighbourhood) -> word -- READ(object) -> checksum; if broken: READ(older object)
//! ```
//!
//! Paper sections 3 and 4. Its flaws (acknowledged before durable; two versions only; repair driven by readers;
//! metadata never written back; a notice as the only fence of cleaning; ...) are part of it.

mod cleaning;
mod client;
mod heads;
mod recovery;
mod server;
mod word;

pub use cleaning::CleaningState;
pub use client::ErdaClient;
pub use server::{ErdaOptions, ErdaServer};
