//! A gateway for Redis clients: RESP2 and RESP3 over TCP on one side, the KV store on the other, with metrics and
//! health over HTTP.
//!
//! ```text
//!   redis-cli, redis-py, Jedis, ... --TCP--> gateway thread --shared memory--> store
//!                                              |  resp/        bytes <-> commands, replies
//!                                              |  commands/    commands -> reads, puts, compare-and-puts
//!                                              |  connection   batches, order, limits
//!   Prometheus, probes ------------HTTP----> admin/
//! ```
//!
//! `docs/gateway.md` describes the commands and their differences from Redis.
//!
//! Invariants:
//! - A reply that says *done* comes after the store has said *done*: an acknowledged write is as durable as the pool.
//! - Replies of a connection are in the order of its commands; commands on one key take effect in that order, and a
//!   read sees every write before it.
//! - A command is done as a whole for each key: a command that reads and writes is a compare-and-put, so no other
//!   client, through a gateway or one-sided, comes in between.
//! - An unsupported option is an error. Memory for requests, and for replies that clients do not take, is bounded.
//!
//! A crash of the gateway loses no acknowledged write, since the gateway holds no data; a write without an answer may
//! or may not have been done.
#![forbid(unsafe_code)]

mod acl;
mod admin;
mod clients;
mod commands;
mod connection;
mod counters;
mod error;
mod fifo;
mod files;
#[cfg(test)]
#[path = "../../fabric/tests/it/foreign_wakes.rs"]
mod foreign_wakes;
mod gateway;
mod glob;
mod guard;
mod guesses;
mod incoming;
mod join;
mod memory;
mod options;
mod origin;
mod outlet;
mod places;
mod process;
mod rate;
mod reactor;
mod resp;
mod secrets;
mod shared;
mod sizes;
mod sleeper;
mod slow_log;
mod thread;
mod tls;
mod transport;
mod worker;

pub use error::GatewayError;
pub use gateway::{GatewayHandle, spawn};
pub use options::{GatewayLimits, GatewayOptions, Password, TlsOptions, read_secret};
