//! Appends in a pipeline: any number under way, `k` of them under one flush, and a [`Persisted`](super::Persisted) for
//! each, in their order.
//!
//! ```text
//!   primary                                             backup
//!     Appender::append   entry 1  (gathered)
//!     Appender::append   entry 2  (gathered)
//!     Appender::flush    SEND, SEND, READ  --------->   receive buffers: the backup's own memory
//!                        <---------  answer of the READ                               one-sided plans
//!                        <---------  how far: a number  AppendReceiver: arrived, persist, take_answers
//!     Appender::persisted  (1, Persisted)  (2, Persisted)                             other plans
//! ```
//!
//! | plan | appender | receiver |
//! | --- | --- | --- |
//! | completion | SENDs | nothing |
//! | READ | SENDs, a READ of [`Receiving::flush`] | nothing |
//! | answer | SENDs | each entry that has arrived; one write-back or sync for all that came together; one answer to each sender |
//!
//! The plan is the planner's for [`Operation::Append`](crate::Operation::Append) on the *receiver's* platform. The
//! receiver describes itself ([`Receiving::say`]), the appender makes the same plan from the description
//! ([`Agreement::hear`]), and compares the two plans.
//!
//! Neither half owns a queue pair, a receive buffer of the store, or a task: a store brings its own connection, sends
//! the answers among its own messages, and polls both halves in its own loop. A primary of several backups has an
//! appender for each; "persisted on all of them, in order" is the join of their numbers, which the store makes.
//!
//! Invariants:
//! - Entries are numbered from 1 in the order of [`Appender::append`], and they are concluded in that order, each once.
//! - An entry is concluded after the last step of the plan for it has ended, and after the appender's device is done
//!   with its bytes.
//! - After a failure, entries are persisted, unknown, or never sent, and [`Standing`] says which.
//!
//! A conclusion speaks for the place in which an entry lies. A store posts a receive buffer again only after everything
//! that recovery needs of it is durable elsewhere.
//!
//! # After a crash
//!
//! At the receiver, the place of each entry that was not concluded holds all of the entry, a part of it, or the earlier
//! bytes, and later entries may be there without it. An entry therefore proves itself, by a tag of the store over its
//! bytes, and a store takes entries up to the first missing one. An entry that was concluded is there as a whole.

mod agreement;
mod appender;
mod declaration;
mod lent;
mod pipeline;
mod receiver;
mod steps;

pub use agreement::{Agreement, NoAgreement, RECEIVING_SIZE, Receiving};
pub use appender::{AppendRehearsal, Appender, Route};
pub use lent::{LENDING_SIZE, Lending, LentAgreement, LentAppender, Piece};
pub use pipeline::{AppendFailure, NotAppended, Standing, WrongAnswer};
pub use receiver::{AppendReceiver, OutOfOrder};
