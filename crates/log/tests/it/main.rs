//! The log as a server uses it, under crashes and damage.

#![forbid(unsafe_code)]

use stonecast_log::{LogFormat, Secret};

mod appended;
mod checkpoint;
mod crash;
mod damage;
mod facts;
mod forged;
mod golden;
mod header;
mod inspect;
mod memory;
mod own;
mod reuse;
mod rules;
mod server;
mod void;

/// Seeds within which each seeded bug must be found.
#[cfg(feature = "mutants")]
const SEEDS_MAX: u64 = 2_000;
