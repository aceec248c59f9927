//! Other stores, measured in the same run on the same data, so that figures can be ratios.
//!
//! Each peer runs in its best configuration with the durability that the comparison names.

pub mod etcd;
pub mod etcd_connection;
pub mod lmdb;
pub mod redb;
pub mod redis_connection;
pub mod redis_server;
mod resp;

use std::io;

pub use etcd::Etcd;
pub use etcd_connection::EtcdConnection;
pub use lmdb::{Lmdb, View};
pub use redb::Redb;
pub use redis_connection::RedisConnection;
pub use redis_server::{RedisPersistence, RedisServer};

/// The error of a peer that could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The peer is not installed.
    #[error("{program} is not installed")]
    Missing {
        /// The program.
        program: &'static str,
    },
    /// The peer ended, or did not become ready.
    #[error("{program} did not start: {reason}")]
    NotStarted {
        /// The program.
        program: &'static str,
        /// The peer's message or behaviour.
        reason: String,
    },
    /// A call of the operating system failed.
    #[error("{doing}: {source}")]
    System {
        /// The attempted action.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The peer's reply does not answer the request.
    #[error("redis-server answered {found}, expected {expected}")]
    Answer {
        /// The reply.
        found: String,
        /// The expected reply.
        expected: &'static str,
    },
    /// A request to etcd failed.
    #[error("etcd: {0}")]
    Etcd(String),
    /// LMDB refused.
    #[error("LMDB: {0}")]
    Lmdb(#[from] ::lmdb::Error),
    /// redb refused.
    #[error("redb: {0}")]
    Redb(Box<::redb::Error>),
}

impl PeerError {
    /// For `map_err`: the call that failed.
    pub(crate) fn system(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}
