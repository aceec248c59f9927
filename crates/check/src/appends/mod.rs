//! Appends of several senders into the memory of one or two receivers, as a subject of the checks: the halves of durable appends
//! with everything around them that a store brings, and nothing else.
//!
//! ```text
//!   sender 0 ── Appender, Appender ──▶ receiver 0    each entry goes to every receiver, by the plan for its platform,
//!   sender 1 ── Appender, Appender ──▶ receiver 1    and is persisted when all have told so
//!
//!   a session: the connections of a sender to all receivers, from its start until one of them ends
//!   a receiver's memory: a ledger, and buffers that are posted one after the other, each once
//! ```
//!
//! | promise | judged |
//! | --- | --- |
//! | an entry that its sender was told to be persisted is in the memory of every receiver | in every state after a power cut |
//! | entries are whole, were appended, and lie in the order of their session | the same |
//! | of a session that a receiver has quiesced nothing is accepted any more | the same |
//! | every sender goes on when everything has healed, with all receivers | at the end |

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
