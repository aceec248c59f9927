//! The log as a server uses it, and what crashes and damage make of it.

#![forbid(unsafe_code)]

use stonecast_log::{LogFormat, Secret};

mod appended;
mod checkpoint;
mod crash;
mod damage;
mod forged;
mod golden;
mod header;
mod inspect;
mod memory;
mod reuse;
mod rules;
mod server;
mod void;
