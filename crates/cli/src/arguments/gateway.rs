//! Flags of `serve` for Redis clients, metrics and health.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;

use clap::Args;

use crate::values::{Period, Size};

/// Who is let in beside clients of shared memory, and how much they may use.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Redis clients, metrics and health (off unless asked for)")]
pub struct GatewayFlags {
    /// Where Redis clients connect, such as 127.0.0.1:6380; port 0: any free one.
    #[arg(long, value_name = "ADDRESS", env = "STONECAST_RESP")]
    pub resp: Option<SocketAddr>,
    /// Where /metrics, /healthz, /readyz and /status are, over HTTP, such as 127.0.0.1:9180.
    #[arg(long, value_name = "ADDRESS", env = "STONECAST_ADMIN")]
    pub admin: Option<SocketAddr>,
    /// File whose first line is the password that Redis clients must say; others must not be able to read it.
    #[arg(long, value_name = "FILE", env = "STONECAST_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
    /// Certificate for TLS, and those that lead to its authority (PEM); needs --tls-key.
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_CERTIFICATE")]
    pub tls_certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// Authority that certificates of clients must come from (PEM); without it clients need none.
    #[arg(long, value_name = "FILE", env = "STONECAST_TLS_CLIENT_AUTHORITY")]
    pub tls_client_authority: Option<PathBuf>,
    /// Threads that serve Redis clients, each with a connection to the store [default: 1].
    #[arg(long, value_name = "COUNT", env = "STONECAST_GATEWAY_THREADS")]
    pub gateway_threads: Option<NonZeroU16>,
    /// Redis clients at a time [default: 10000].
    #[arg(long, value_name = "COUNT", env = "STONECAST_CONNECTIONS")]
    pub connections: Option<NonZeroUsize>,
    /// Longest request of a Redis client [default: 16MiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_REQUEST_SIZE")]
    pub request_size: Option<Size>,
    /// Commands of one connection that are done as one batch; more wait [default: 1024].
    #[arg(long, value_name = "COUNT", env = "STONECAST_PIPELINE_DEPTH")]
    pub pipeline_depth: Option<NonZeroUsize>,
    /// Replies of one connection that wait to be taken; above, its commands wait [default: 32MiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_OUTPUT_SIZE")]
    pub output_size: Option<Size>,
    /// Requests and replies of all connections together [default: 512MiB].
    #[arg(long, value_name = "SIZE", env = "STONECAST_BUFFER_SIZE")]
    pub buffer_size: Option<Size>,
    /// How long a request may take to arrive, and the password to be said, before the connection is cut [default: 60s].
    #[arg(long, value_name = "TIME", env = "STONECAST_REQUEST_TIMEOUT")]
    pub request_timeout: Option<Period>,
    /// How long replies may wait without any being taken before the connection is cut [default: 30s].
    #[arg(long, value_name = "TIME", env = "STONECAST_OUTPUT_TIMEOUT")]
    pub output_timeout: Option<Period>,
}
