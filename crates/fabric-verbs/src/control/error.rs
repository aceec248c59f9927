//! The reasons why a connection of the control plane ended early.

use std::io;

/// The fault of a peer, in facts, for the log and for the side that asked to connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The first bytes are not those of this protocol.
    #[error(
        "it speaks another protocol: its first bytes are {found:02x?}, not those of a Stonecast control plane"
    )]
    ForeignProtocol {
        /// The first bytes, up to 8 of them.
        found: Vec<u8>,
    },
    /// Another version of the protocol.
    #[error(
        "it speaks version {found} of the protocol, and this side speaks {supported}; use the same release on both sides"
    )]
    Version {
        /// The version of the peer.
        found: u16,
        /// The version of this side.
        supported: u16,
    },
    /// The name is not a possible name of a key.
    #[error("it gives a name that no key can have")]
    Name,
    /// The peer does not hold the key.
    #[error(
        "it does not hold the key of {name}; both sides must have the same line in their key files"
    )]
    Key {
        /// The name of the key.
        name: String,
    },
    /// The other side reports that this side does not hold the key.
    #[error(
        "the server does not accept the key of {name}; its key file must have the same line as the one here"
    )]
    KeyRefused {
        /// The name of the key.
        name: String,
    },
    /// A sealed message does not open.
    #[error(
        "a message does not open with the keys of this session: it was altered, or replayed from another session"
    )]
    Sealed,
    /// A message that is invalid.
    #[error("it sent a malformed message: {reason}")]
    Malformed {
        /// The fault.
        reason: &'static str,
    },
    /// A message that is not allowed in this state of the connection.
    #[error("it sent {message} in a state that does not allow this message")]
    OutOfPlace {
        /// The message.
        message: &'static str,
    },
    /// The ticket expired.
    #[error(
        "its ticket expired {late_ms} ms ago; it must connect again and use the new one within {lifetime_ms} ms"
    )]
    TicketExpired {
        /// Time since the expiry.
        late_ms: u64,
        /// Lifetime of tickets.
        lifetime_ms: u64,
    },
    /// The ticket is not one that was given to this session, or was used before.
    #[error("its ticket was not given out in this session, or was used before")]
    TicketUnknown,
    /// The client asks for more than its lease grants.
    #[error("it asks for {asked} {what}, and its lease grants {granted}")]
    BeyondLease {
        /// The resource.
        what: &'static str,
        /// The number requested.
        asked: u64,
        /// The number granted.
        granted: u64,
    },
    /// The peer did not finish the handshake in time.
    #[error("it did not finish the handshake within {limit_ms} ms")]
    Late {
        /// The time that it had.
        limit_ms: u64,
    },
    /// Nothing was heard from the peer for longer than the lease.
    #[error("nothing was heard from it for {lease_ms} ms, the length of its lease")]
    LeaseExpired {
        /// The length of the lease.
        lease_ms: u64,
    },
    /// The TCP connection ended.
    #[error("it closed the connection")]
    Closed,
    /// The TCP connection failed.
    #[error("the connection failed: {source}")]
    Connection {
        /// The system's error.
        source: io::Error,
    },
    /// No server can be reached at the address.
    #[error("no server answers at {address}: {source}")]
    Unreachable {
        /// The address.
        address: String,
        /// The system's latest error.
        source: io::Error,
    },
    /// The program on the other side refuses the connection.
    #[error("{reason}")]
    Rejected {
        /// The reason of the program.
        reason: String,
    },
    /// The client has no key to connect with.
    #[error("there is no key to connect with; name a key file")]
    NoKey,
}

impl ControlError {
    /// Whether the system at the address has said that no process listens there.
    pub fn is_nobody_listening(&self) -> bool {
        let Self::Unreachable { source, .. } = self else {
            return false;
        };
        source.kind() == io::ErrorKind::ConnectionRefused
    }
}
