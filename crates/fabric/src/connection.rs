//! Connection management, modelled on the events of librdmacm.

use crate::QueuePair;

/// A peer that wants to connect, until it is accepted or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionRequest(pub u64);

/// The identity of a peer, as far as the provider can prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// A name for messages: "process 4711 of user 1000", "192.0.2.7".
    pub name: String,
    /// The user on whose behalf the peer runs, for limits per user: "user 1000", the name of a key.
    pub user: String,
    /// The process number, if the peer is a process of this host that the provider can identify.
    pub process: Option<u32>,
    /// Whether the peer runs with the rights of this process anyway, so that write access to files of this process
    /// gives it nothing new. False if the provider cannot know.
    pub same_user: bool,
}

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectCause {
    /// The peer requested the disconnect.
    Requested,
    /// The peer is gone. Its earlier posts may or may not have taken effect.
    PeerDied,
    /// The queue pair failed; its first failed completion has the reason.
    QueuePairError,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A peer asks to connect.
    Request {
        /// The request, to accept or reject.
        request: ConnectionRequest,
        /// The identity of the peer.
        peer: PeerIdentity,
        /// The data that the peer sent, at most [`crate::Capabilities::private_data_size_max`] bytes. Unchecked.
        private_data: Vec<u8>,
    },
    /// The connection is established. Reported to both sides.
    Established {
        /// The queue pair of the connection.
        qp: QueuePair,
        /// The data that the accepting side sent; empty on that side.
        private_data: Vec<u8>,
    },
    /// `connect` failed: no one listens, the other side rejected, or it speaks another protocol.
    Rejected {
        /// The queue pair that was to be connected. It may be used for another attempt.
        qp: QueuePair,
        /// The reason, for people.
        reason: String,
        /// Whether the system at the address has said that no process listens there. `false` if a process refused, and
        /// if nothing is known of the other side.
        nobody_listens: bool,
    },
    /// The connection ended. Its outstanding work requests complete with an error; its queue pair stays in the error
    /// state until it is destroyed. Reported once.
    Disconnected {
        /// The queue pair of the connection.
        qp: QueuePair,
        /// The reason.
        cause: DisconnectCause,
    },
}
