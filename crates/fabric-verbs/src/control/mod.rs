//! The control plane: how two machines come to trust each other, connect their queue pairs, and notice each other's end.
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
//! One TCP connection for each pair of queue pairs. It begins with the two lines in clear text, which name the protocol,
//! its version and the client's name for its key; everything after is sealed (ChaCha20-Poly1305, keys of this session
//! alone), each message with its number, so that none can be altered, left out, repeated or brought from another session.
//!
//! Invariants:
//! - Nothing about memory (queue pair numbers, keys, addresses) is sent before the other side has opened a sealed message
//!   of this very session; a recorded handshake that is played again ends at the first of them.
//! - A ticket is used once, in the session that it was given in, before it expires.
//! - Whoever has not finished the handshake in time is dropped; there is a bound on how many may try at once.
//! - Trouble of one connection ends that connection, is written to the log with its peer, and disturbs no other.
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
