//! Finds out why no server accepted a connection: perhaps no server runs there.

use std::io;
#[cfg(feature = "verbs")]
use std::net::{TcpStream, ToSocketAddrs as _};
#[cfg(feature = "verbs")]
use std::time::Duration;

use stonecast_kv::StoreError;

use crate::address::{Address, Place};
use crate::error::{Error, ErrorKind};

/// Time limit for finding out whether a machine answers.
#[cfg(feature = "verbs")]
const KNOCK_TIME_MAX: Duration = Duration::from_secs(2);

/// Explains why no connection to `address` was made if `error` is a refusal: perhaps no server runs there.
pub(crate) fn explained(error: Error, address: &Address) -> Error {
    if !matches!(error.kind(), ErrorKind::Store(StoreError::Refused(_))) {
        return error;
    }
    let Some(is_absent) = absence(address) else {
        return error;
    };
    let refusal = error.to_string();
    ErrorKind::Unreachable { refusal, is_absent }.into()
}

/// Whether nothing listens at `address`, or this program cannot reach it; `None`: something answers there.
pub(crate) fn absence(address: &Address) -> Option<bool> {
    let reason = knock(address).err()?;
    match reason.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Some(true),
        // The last two kinds mean that the server accepts no connection from its full backlog, and that the path is too
        // long for a file.
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::TimedOut
        | io::ErrorKind::WouldBlock
        | io::ErrorKind::InvalidFilename => Some(false),
        _ => None,
    }
}

/// Returns an error if nothing listens at `address`.
fn knock(address: &Address) -> io::Result<()> {
    match &address.0 {
        Place::SharedMemory(path) => stonecast_fabric_shm::knock(path),
        #[cfg(feature = "verbs")]
        Place::Verbs(address) => {
            let text = address.to_string();
            let mut answer = Err(io::ErrorKind::NotFound.into());
            for address in text.trim_start_matches("verbs:").to_socket_addrs()? {
                answer = TcpStream::connect_timeout(&address, KNOCK_TIME_MAX).map(drop);
                if answer.is_ok() {
                    break;
                }
            }
            answer
        }
        // The client of a cluster has named the node that it did not reach.
        Place::Cluster(_) => Ok(()),
    }
}
