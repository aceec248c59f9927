//! The direct store in the simulated world.

mod client;
mod damage;
mod drive;
mod explorer;
mod host;
mod keys;
mod lab;
mod mishaps;
mod progress;
mod raw;
mod setup;
mod visitors;
mod words;

pub(crate) use drive::run;
pub(crate) use setup::Setup;
