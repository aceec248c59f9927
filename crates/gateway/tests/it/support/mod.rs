//! A store, a gateway and clients for tests.

mod client;
pub mod exposition;
mod not_run;
mod process;
mod world;

pub use client::{Client, Reply, request};
pub use not_run::not_run;
pub use process::{Bounds, Process};
pub use world::{World, options, with_store_client};
