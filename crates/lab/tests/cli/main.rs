//! The binary of the laboratory: its output, and that the same command prints the same.
//!
//! A test that this machine cannot run says so ([`support::not_run`]); `cargo xtask ci` counts and names those.
#![forbid(unsafe_code)]

mod figures;
mod remotelog;
mod sim;
mod support;
mod ycsb;
