//! The errors for which a gateway does not start, or ends.

use std::net::SocketAddr;
use std::path::PathBuf;

use stonecast_kv::StoreError;

/// The error for which a gateway did not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// An address is reachable from other machines, and neither a password nor TLS protects it.
    #[error(
        "{address} can be reached from other machines: set a password (--password-file), users (--resp-acl-file, for the port of Redis clients) or TLS (--tls-certificate and --tls-key), or listen at 127.0.0.1"
    )]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// The options contradict each other or allow nothing.
    #[error("{0}")]
    Options(String),
    /// The gateway cannot listen at an address.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file for TLS cannot be used.
    #[error("{}: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        reason: String,
    },
    /// The system refused a call.
    #[error("{doing}: {source}")]
    System {
        /// The attempted action.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The store could not be reached, or did not answer.
    #[error("gateway to the store: {0}")]
    Connection(#[from] stonecast::Error),
    /// The store is gone.
    #[error("gateway to the store: {0}")]
    Store(#[from] StoreError),
    /// The back-end of data structures could not be reached, or refused to answer.
    #[error("gateway to the data structures: {0}")]
    Structures(#[from] stonecast::structures::Error),
    /// The back-end of data structures did not answer in time.
    #[error("gateway to the data structures: no answer")]
    Silent,
    /// A thread panicked. Its message went to stderr.
    #[error("a thread of the gateway failed")]
    Panicked,
}

/// Makes an argument of `map_err`: the error of a system call, with the attempted action.
pub(crate) fn system<E: Into<std::io::Error>>(
    doing: &'static str,
) -> impl FnOnce(E) -> GatewayError {
    move |source| GatewayError::System {
        doing,
        source: source.into(),
    }
}
