//! The behaviour that the binaries share at a terminal.
//!
//! | file | content |
//! | --- | --- |
//! | `run.rs` | from the command to the exit status; a broken invariant is reported, not a backtrace |
//! | `output.rs`, `progress.rs` | results to stdout, words to stderr |
//! | `log.rs` | the log of a server: events with a level, for people or as JSON |
//! | `failure.rs` | exit status and message |
//! | `ndjson.rs` | the exchange format of import and export |
//! | `changes.rs` | the lines of a batch |
//! | `values.rs` | the exchange format of values without keys |
//! | `size.rs` | sizes as people type them |
//! | `child.rs` | a server that another program starts |
//!
//! Results go to stdout, words for people to stderr. An error says what was wrong and what to do.
#![forbid(unsafe_code)]

pub mod changes;
pub mod child;
pub mod failure;
pub mod log;
pub mod ndjson;
pub mod output;
pub mod progress;
mod run;
mod size;
pub mod values;

pub use run::run;
pub use size::Size;
