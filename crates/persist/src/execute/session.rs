//! What both sides of a connection must know of each other before the first update.
//!
//! ```text
//!   request    0 "stcprst1"   8 u64 program
//!   answer     0 "stcprst1"   8 u64 address of the data    16 u64 bytes of it       24 u32 its key
//!             28 u32 bytes of a receive buffer             32 u64 address of the receive buffers
//!             40 u64 bytes of them, 0: not in persistent memory                     48 u32 their key
//! ```

use stonecast_base::Span;
use stonecast_fabric::{RemoteAddress, Rkey};

/// Names the protocol and its version.
const MAGIC: u64 = u64::from_le_bytes(*b"stcprst1");
/// Bytes of an answer.
const ANSWER_SIZE: usize = 52;

/// What a requester says of itself: which program of steps it will run.
pub(crate) fn request(program: u64) -> Vec<u8> {
    [MAGIC.to_le_bytes(), program.to_le_bytes()].concat()
}

/// The program that a requester will run, if it speaks this protocol.
pub(crate) fn parse_request(bytes: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    (word(0)? == MAGIC && bytes.len() == 16)
        .then(|| word(8))
        .flatten()
}

/// A responder's memory, as its requesters see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Address of the first byte of its data.
    pub data: RemoteAddress,
    /// Bytes of its data.
    pub data_size: u64,
    /// Bytes of a message that it takes.
    pub message_size_max: u32,
    /// Its receive buffers, and their bytes in all, where they lie in persistent memory.
    pub receive_buffers: Option<(RemoteAddress, u64)>,
}

impl Peer {
    pub fn encode(&self) -> Vec<u8> {
        let (buffers, buffers_size) = self.receive_buffers.unwrap_or((
            RemoteAddress {
                address: 0,
                rkey: Rkey(0),
            },
            0,
        ));
        let mut bytes = Vec::with_capacity(ANSWER_SIZE);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&self.data.address.to_le_bytes());
        bytes.extend_from_slice(&self.data_size.to_le_bytes());
        bytes.extend_from_slice(&self.data.rkey.0.to_le_bytes());
        bytes.extend_from_slice(&self.message_size_max.to_le_bytes());
        bytes.extend_from_slice(&buffers.address.to_le_bytes());
        bytes.extend_from_slice(&buffers_size.to_le_bytes());
        bytes.extend_from_slice(&buffers.rkey.0.to_le_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != ANSWER_SIZE {
            return None;
        }
        let long = |at: usize| {
            u64::from_le_bytes(*bytes[at..].first_chunk().expect("the length was checked"))
        };
        let short = |at: usize| {
            u32::from_le_bytes(*bytes[at..].first_chunk().expect("the length was checked"))
        };
        let buffers = RemoteAddress {
            address: long(32),
            rkey: Rkey(short(48)),
        };
        let sound = long(0) == MAGIC && Span::new(long(8), long(16)).end().is_some();
        sound.then(|| Self {
            data: RemoteAddress {
                address: long(8),
                rkey: Rkey(short(24)),
            },
            data_size: long(16),
            message_size_max: short(28),
            receive_buffers: (long(40) > 0).then_some((buffers, long(40))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_back_and_nothing_else_is() {
        assert_eq!(parse_request(&request(7)), Some(7));
        let place = |address, rkey| RemoteAddress {
            address,
            rkey: Rkey(rkey),
        };
        for receive_buffers in [None, Some((place(9 << 40, 5), 4096))] {
            let peer = Peer {
                data: place(1 << 40, 3),
                data_size: 1 << 20,
                message_size_max: 512,
                receive_buffers,
            };
            let bytes = peer.encode();
            assert_eq!(Peer::parse(&bytes), Some(peer));
            for size in 0..bytes.len() {
                assert_eq!(Peer::parse(&bytes[..size]), None);
            }
            let mut other = bytes.clone();
            other[7] ^= 1;
            assert_eq!(Peer::parse(&other), None, "another version");
        }
        let mut endless = Peer {
            data: place(u64::MAX, 3),
            data_size: 0,
            message_size_max: 0,
            receive_buffers: None,
        };
        assert!(Peer::parse(&endless.encode()).is_some());
        endless.data_size = 1;
        assert_eq!(
            Peer::parse(&endless.encode()),
            None,
            "memory that ends beyond 2^64"
        );
        assert_eq!(
            (parse_request(&[0; 16]), parse_request(&request(7)[..15])),
            (None, None)
        );
    }
}
