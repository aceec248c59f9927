//! Data structures in the memory of a back-end, as a subject of the checks.
//!
//! ```text
//!   front-end 0, 1 ── lease, stage, publish ──▶ back-end      one domain: hash table, B+tree, multi-version B+tree, stack, queue
//!   front-end 2    ── READs ──────────────────▶               a reader
//! ```
//!
//! | promise | judged |
//! | --- | --- |
//! | each structure answers as its sequential specification does | when an operation is staged |
//! | the operations on each structure are linearizable, for readers, too, in the order of their numbers | at the end of a run |
//! | operations that were acknowledged as durable count, and those that count are a prefix of the staged ones, in order | when a tenure begins, and in every examined state after a power cut |
//! | an operation with a token is done once, and tells the same again | when it is tried again |
//! | a tenure that is over tells nothing that its successor does not count | when something is told |
//! | a snapshot shows the result of a prefix of the operations | after each snapshot |
//! | no block is lost or used twice | in every examined state |
//! | no front-end meets damage, and each goes on after everything has healed | all the time, and at the end |

mod drive;
mod front_end;
mod intent;
mod ledger;
mod model;
mod setup;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use drive::run;
pub(crate) use setup::Setup;
