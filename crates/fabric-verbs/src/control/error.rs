//! Why a connection of the control plane ended before its time.

use std::io;

/// What was wrong with a peer, in facts; for the log, and for who asked to connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The first bytes are not those of this protocol.
    #[error(
        "it speaks another protocol: its first bytes are {found:02x?}, not those of a Stonecast control plane"
    )]
    ForeignProtocol {
        /// The first bytes, as many as there were, at most 8.
        found: Vec<u8>,
    },
    /// Another version of the protocol.
    #[error(
        "it speaks version {found} of the protocol, this side speaks {supported}; use the same release on both sides"
    )]
    Version {
        /// Its version.
        found: u16,
        /// The version of this side.
        supported: u16,
    },
    /// The name is not one that a key file can have.
    #[error("it gives a name that no key can have")]
    Name,
    /// The peer does not hold the key.
    #[error(
        "it does not hold the key of {name}; both sides must have the same line in their key files"
    )]
    Key {
        /// Whose key.
        name: String,
    },
    /// The other side says that this one does not hold the key.
    #[error(
        "the server does not accept the key of {name}; its key file must have the same line as the one here"
    )]
    KeyRefused {
        /// Whose key.
        name: String,
    },
    /// A sealed message does not open.
    #[error(
        "a message does not open with the keys of this session: it was altered, or replayed from another session"
    )]
    Sealed,
    /// A message that makes no sense.
    #[error("it sent a malformed message: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A message that has no place in this state of the connection.
    #[error("it sent {message} where that has no place")]
    OutOfPlace {
        /// Which.
        message: &'static str,
    },
    /// The ticket expired.
    #[error(
        "its ticket expired {late_ms} ms ago; it must connect again and use the new one within {lifetime_ms} ms"
    )]
    TicketExpired {
        /// How long ago.
        late_ms: u64,
        /// How long tickets live.
        lifetime_ms: u64,
    },
    /// The ticket is not one that was given to this session, or was used before.
    #[error("its ticket was not given out in this session, or was used before")]
    TicketUnknown,
    /// It asks for more than its lease grants.
    #[error("it asks for {asked} {what}, its lease grants {granted}")]
    BeyondLease {
        /// Of what.
        what: &'static str,
        /// How many it asks for.
        asked: u64,
        /// How many it may have.
        granted: u64,
    },
    /// It did not finish the handshake in time.
    #[error("it did not finish the handshake within {limit_ms} ms")]
    Late {
        /// How long it had.
        limit_ms: u64,
    },
    /// Nothing was heard from it for longer than the lease.
    #[error("nothing was heard from it for {lease_ms} ms, the length of its lease")]
    LeaseExpired {
        /// How long that is.
        lease_ms: u64,
    },
    /// The TCP connection ended.
    #[error("it closed the connection")]
    Closed,
    /// The TCP connection failed.
    #[error("the connection failed: {source}")]
    Connection {
        /// What the system said.
        source: io::Error,
    },
    /// Nobody can be reached there.
    #[error("nobody answers at {address}: {source}")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said, last.
        source: io::Error,
    },
    /// The program on the other side does not want the connection.
    #[error("{reason}")]
    Rejected {
        /// Its reason.
        reason: String,
    },
    /// There is no key to connect with.
    #[error("there is no key to connect with; name a key file")]
    NoKey,
}
