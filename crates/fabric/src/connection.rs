//! Connection management, after the events of librdmacm.

use crate::QueuePair;

/// A peer that wants to connect, until it is accepted or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionRequest(pub u64);

/// Who a peer is, as far as the provider can prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// For messages: "process 4711 of user 1000", "192.0.2.7".
    pub name: String,
    /// On whose behalf it runs, so that what one user holds can be counted: "user 1000", the name of a key.
    pub user: String,
    /// Its process number, where it is a process of this host that the provider can name.
    pub process: Option<u32>,
    /// Whether the peer runs with the rights of this process anyway, so that giving it write access to files of this
    /// process gives it nothing new. False where the provider cannot know.
    pub same_user: bool,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectCause {
    /// The peer asked for it.
    Requested,
    /// The peer is gone. What it posted before may or may not have happened.
    PeerDied,
    /// The queue pair failed; its first failed completion says why.
    QueuePairError,
}

/// Something happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A peer asks to connect.
    Request {
        /// To accept or reject it.
        request: ConnectionRequest,
        /// Who it is.
        peer: PeerIdentity,
        /// What it said, at most [`crate::Capabilities::private_data_size_max`] bytes. Unchecked.
        private_data: Vec<u8>,
    },
    /// The connection stands. Comes to both sides.
    Established {
        /// Its queue pair.
        qp: QueuePair,
        /// What the accepting side said; empty on that side.
        private_data: Vec<u8>,
    },
    /// `connect` failed: nobody listens, the other side rejected, or it speaks another protocol.
    Rejected {
        /// The queue pair that was to be connected. It may be used for another attempt.
        qp: QueuePair,
        /// Why, for people.
        reason: String,
    },
    /// The connection ended. Its outstanding work requests complete with an error; its queue pair stays in the error
    /// state until it is destroyed. Comes once.
    Disconnected {
        /// Its queue pair.
        qp: QueuePair,
        /// Why.
        cause: DisconnectCause,
    },
}
