//! The shared-memory fabric from the outside.

mod appends;
mod contract;
mod descriptors;
mod ends;
mod handshake;
mod node;
mod order;
mod pause;
mod processes;
mod revocation;
mod world;
