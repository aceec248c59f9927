//! End-to-end tests: the real binary, real processes, killed and restarted.
//!
//! A test that this machine cannot run reports so ([`support::not_run`]); `cargo xtask ci` counts and names those.
#![forbid(unsafe_code)]

#[path = "../../../stonecast/tests/it/stand_ins.rs"]
mod stand_ins;
mod support;

mod backups;
mod batches;
mod cluster;
mod containers;
mod creation;
mod damage;
mod doctor;
mod ends;
mod full;
mod gateway;
mod growing;
mod idle;
mod import;
mod interface;
mod kill;
mod ls;
mod mirrors;
mod packaging;
mod plan;
mod power_cuts;
mod refusals;
mod round_trip;
mod settings;
mod sharing;
mod stat_admin;
mod statuses;
mod structures;
mod supervision;
mod transfer;
mod ycsb;
