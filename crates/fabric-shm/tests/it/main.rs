//! The shared-memory fabric from the outside.

mod contract;
mod world;
