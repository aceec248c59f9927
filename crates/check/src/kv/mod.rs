//! The store with one server in the simulated world: a subject of the checks, and the course of its runs.

mod answers;
pub(crate) mod batch;
mod causes;
mod client;
mod contents;
mod damage;
mod drive;
mod harm;
mod hunts;
mod keys;
mod mishaps;
mod progress;
mod raw;
mod setup;
mod subject;
#[cfg(test)]
mod tests;
mod visitors;
mod words;

pub(crate) use answers::judge_history;
pub(crate) use contents::{Contents, WithBatches};
pub(crate) use drive::run;
pub(crate) use keys::name;
pub(crate) use setup::{Setup, chunked_percent, chunked_size};
pub(crate) use words::WORDS;
