//! The messages between client and server. Little-endian, fixed layouts; `docs/formats/protocol.md` has the tables.
//!
//! Each request gets exactly one answer, and the answers of a connection arrive in the order of its requests. A
//! WRITE_WITH_IMM into leased or staging memory is a request too. An answer therefore names no request.
//!
//! An arriving message is unchecked bytes until one of the `parse` functions of this module has accepted the message.

mod answer;
mod batch;
mod bucket;
mod chunks;
mod connect;
mod copies;
pub(crate) mod intent;
mod keys;
mod layout;
pub mod limits;
mod request;
pub(crate) mod staging;
#[cfg(test)]
mod tables;
mod word;

pub(crate) use answer::{
    Accesses, Answer, AnswerWriter, Grant, KEPT_WORDS, KeptPage, ReaderLeaseGrant, RightsGrant,
    ServerTimeGrant, Verdict, next_answer,
};
pub use batch::Expectation;
pub(crate) use batch::{BatchEntry, EntryChange, next_entry, push_entry};
pub(crate) use bucket::{
    BUCKET_WORDS, Bucket, CONTROL_OFFSET, Candidates, INDEX_BITS_MAX, MOVED, table_size,
};
pub(crate) use chunks::{ChunkName, Head};
pub(crate) use connect::{Hello, Welcome};
pub(crate) use copies::CopiesPage;
pub(crate) use keys::{KeyHash, KeyMap, Route};
pub(crate) use request::{Release, Request};
pub(crate) use word::{FIRST_READ_SIZE_MAX, LOG_SIZE_MAX, Word};

/// The immediate of a write: lease slot and unit.
pub(crate) fn immediate(slot: u8, unit: u32) -> u32 {
    assert!(unit < 1 << 24, "a segment has fewer than 2^24 units");
    assert!(slot < 1 << 7, "a client has few leases");
    u32::from(slot) << 24 | unit
}

/// The bit of an immediate that says that the record brings a batch.
const BRINGS_BATCH: u32 = 1 << 31;

/// The immediate of a record that brings a batch.
pub(crate) fn immediate_of_batch(slot: u8, unit: u32) -> u32 {
    immediate(slot, unit) | BRINGS_BATCH
}

/// Whether the record of an immediate carries a batch, and does not itself count.
pub(crate) fn brings_batch(immediate: u32) -> bool {
    immediate & BRINGS_BATCH != 0
}

/// The lease slot and unit that an immediate names.
pub(crate) fn split_immediate(immediate: u32) -> (u8, u32) {
    let immediate = immediate & !BRINGS_BATCH;
    ((immediate >> 24) as u8, immediate & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_make_a_parser_of_messages_panic() {
        let mut random = stonecast_base::random_from_seed(1);
        for _ in 0..100_000 {
            use rand::RngExt as _;
            let size = random.random_range(0..96);
            let mut bytes: Vec<u8> = (0..size).map(|_| random.random()).collect();
            if let Some(first) = bytes.first_mut() {
                *first %= 17;
            }
            let _ = (
                Request::parse(&bytes),
                Hello::refusal(&bytes),
                Welcome::parse(&bytes),
            );
            let mut rest = bytes.as_slice();
            while next_answer(&mut rest).is_some() {}
        }
    }
}
