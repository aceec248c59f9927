//! The direct store in the simulated world.

mod client;
mod drive;
mod explorer;
mod host;
mod keys;
mod lab;
mod setup;

pub(crate) use drive::{FAULTS, run};
pub(crate) use setup::Setup;
