//! The shared-memory fabric from the outside.

mod appends;
mod contract;
mod descriptors;
mod ends;
#[path = "../../../fabric/tests/it/foreign_wakes.rs"]
mod foreign_wakes;
mod handshake;
mod node;
mod order;
mod pause;
mod processes;
mod revocation;
mod wakes;
mod world;
