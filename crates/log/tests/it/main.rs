//! The log as a server uses it, under crashes and damage.

#![forbid(unsafe_code)]

use stonecast_log::{LogFormat, Secret};

mod appended;
mod checkpoint;
mod crash;
mod damage;
mod forged;
mod golden;
mod header;
#[cfg(feature = "mutants")]
mod hunt;
mod inspect;
mod memory;
mod own;
mod reuse;
mod rules;
mod server;
mod void;
