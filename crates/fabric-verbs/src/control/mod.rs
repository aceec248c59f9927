//! The control plane: two machines establish trust, connect their queue pairs, and notice each other's end.
//!
//! ```text
//!   client                                            server
//!     greeting (protocol, version, name) ------------->          refused: other protocol, other version
//!     Noise NNpsk0, message 1            ------------->          refused: another key
//!            <------------- verdict, Noise message 2: welcome (ticket, lease, profile)
//!     connect (ticket, profile, endpoint, data) ------>          refused: old or strange ticket, more than the lease
//!            <------------- accepted (endpoint, data) | rejected (reason)
//!     ready  ------------------------------------------>
//!            <------------ heartbeats, both ways ------>
//!     goodbye (cause), or silence longer than the lease
//! ```
//!
//! There is one TCP connection for each pair of queue pairs. It begins with two lines in clear text, which name the
//! protocol, its version and the client's name for its key. Everything after them is sealed (ChaCha20-Poly1305, with
//! keys of this session alone), each message with its number, so that no message can be altered, omitted, repeated or
//! taken from another session.
//!
//! Invariants:
//! - No information about memory (queue pair numbers, keys, addresses) is sent before the other side has opened a
//!   sealed message of this session; a replayed handshake ends at the first of these messages.
//! - A ticket is used once, in the session that issued it, before it expires.
//! - A peer that does not finish the handshake in time is dropped; the number of concurrent handshakes is bounded.
//! - Trouble of one connection ends that connection, is logged with its peer, and disturbs no other connection.
//!
//! A crash of either side closes its TCP connections; the loss of its machine or of the network shows as silence.

mod back_off;
mod dial;
mod error;
mod frame;
mod handshake;
mod key;
mod lease;
mod link;
mod message;
mod plane;
mod profile;
mod ticket;

pub use back_off::BackOff;
pub use error::ControlError;
pub use key::{Key, KeyFileError, KeyRing};
pub use lease::LeaseTerms;
pub use message::{EndCause, PRIVATE_DATA_SIZE_MAX};
pub use plane::{ControlEvent, ControlOptions, ControlPlane, LinkId, Log, Offer};
pub use profile::PeerProfile;

#[cfg(feature = "verbs")]
pub(crate) use handshake::random_bytes;
