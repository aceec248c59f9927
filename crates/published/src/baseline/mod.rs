//! The two schemes with which Erda was compared (paper section 5.1).
//!
//! ```text
//!   Redo Logging       client -- SEND(record) --> redo log --(server checks, writes back)--> answer
//!   Read After Write   client -- SEND(key) --> a slot of the ring; client -- WRITE(record), READ --> ring
//!   both               the server applies records later: log or ring -> destination storage, hash table
//!   reads              client -- SEND(key) --> the server looks in the log or ring, then in the destination -- SEND(value) -->
//! ```
//!
//! A record leaves its slot when it is applied. The ring of Read After Write is polled: a slot is
//! cleared before it is given to a client, because nothing else distinguishes a new record of a key
//! from the previous one in the slot. Neither scheme has a published recovery, so opening creates a
//! new store.

mod client;
mod server;
mod storage;

pub use client::BaselineClient;
pub use server::BaselineServer;

/// One of the two schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The server's CPU takes every record from a message.
    RedoLogging,
    /// Clients write records and read after each write.
    ReadAfterWrite,
}
