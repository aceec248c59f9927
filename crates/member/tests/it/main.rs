//! How nodes stay in their cluster, told as stories.

mod detection;
mod mishaps;
#[cfg(feature = "mutants")]
mod mutants;
mod processes;
mod reader;
mod refusals;
mod scene;
mod staying;
mod suspension;
