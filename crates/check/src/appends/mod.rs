//! Appends of several senders into the memory of one or two receivers, as a subject of the checks. The subject consists
//! of the two halves of durable appends and the little that a store adds to them.
//!
//! ```text
//!   sender 0 ── Appender, Appender ──▶ receiver 0    each entry goes to every receiver, by the plan for its platform,
//!   sender 1 ── Appender, Appender ──▶ receiver 1    and is persisted when all receivers have said so
//!
//!   a session: the connections of a sender to all receivers, from its start until one of them ends
//!   a receiver's memory: a ledger, and buffers that are posted one after the other, each once
//! ```
//!
//! | promise | judged |
//! | --- | --- |
//! | an entry is in the memory of every receiver once its sender was told that the entry is persisted | in every state after a power cut |
//! | each entry is whole, was appended, and lies in the order of its session | in every state after a power cut |
//! | a receiver accepts no more entries of a session that it has quiesced | in every state after a power cut |
//! | after everything has healed, every sender continues with all receivers | at the end |

mod drive;
mod entries;
mod judge;
mod mishaps;
mod receiver;
mod sender;
mod setup;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use drive::run;
pub(crate) use setup::Setup;
