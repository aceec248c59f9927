//! The shared-memory fabric from the outside.

mod contract;
mod descriptors;
mod ends;
mod handshake;
mod node;
mod order;
#[path = "../../../fabric/tests/it/pause.rs"]
mod pause;
mod processes;
mod revocation;
mod world;
