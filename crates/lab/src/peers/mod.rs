//! Other stores, measured in the same run on the same data, so that figures can be ratios.
//!
//! Each peer runs in the configuration that serves it best while giving the durability that the comparison names.

pub mod lmdb;
pub mod redis_connection;
pub mod redis_server;
mod resp;

use std::io;

pub use lmdb::{Lmdb, View};
pub use redis_connection::RedisConnection;
pub use redis_server::{RedisPersistence, RedisServer};

/// Why a peer could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It is not installed.
    #[error("{program} is not installed")]
    Missing {
        /// Its program.
        program: &'static str,
    },
    /// It ended, or did not become ready.
    #[error("{program} did not start: {reason}")]
    NotStarted {
        /// Its program.
        program: &'static str,
        /// What it said or did.
        reason: String,
    },
    /// A call of the operating system failed.
    #[error("{doing}: {source}")]
    System {
        /// What was attempted.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It answered something that is no answer to the request.
    #[error("redis-server answered {found}, expected {expected}")]
    Answer {
        /// What came.
        found: String,
        /// What should have come.
        expected: &'static str,
    },
    /// LMDB refused.
    #[error("LMDB: {0}")]
    Lmdb(#[from] ::lmdb::Error),
}

impl PeerError {
    /// For `map_err`: the call that failed.
    pub(crate) fn system(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}
