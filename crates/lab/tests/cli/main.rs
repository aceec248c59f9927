//! The binary of the laboratory: its output, which is the same for the same command.
//!
//! A test that this machine cannot run reports that ([`support::not_run`]); `cargo xtask ci` counts and names those.
#![forbid(unsafe_code)]

mod compare;
mod figures;
mod remotelog;
mod sim;
mod support;
mod tables;
mod ycsb;
