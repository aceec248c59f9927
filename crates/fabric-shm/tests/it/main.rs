//! The shared-memory fabric from the outside.

mod appends;
mod clock;
mod contract;
mod descriptors;
mod ends;
#[path = "../../../fabric/tests/it/foreign_wakes.rs"]
mod foreign_wakes;
mod handshake;
mod node;
#[path = "../../../gateway/tests/it/support/not_run.rs"]
mod not_run;
mod order;
mod pause;
mod processes;
mod revocation;
#[path = "../../../fabric/tests/it/time_namespace.rs"]
mod time_namespace;
mod wakes;
mod world;
