//! The facts that both sides of a connection exchange before the first update.
//!
//! ```text
//!   request    0 greeting    16 u64 program
//!   answer     0 greeting    16 u64 address of the data    24 u64 bytes of it       32 u32 its key
//!             36 u32 bytes of a receive buffer             40 u64 address of the receive buffers
//!             48 u64 bytes of them, 0: not in persistent memory                     56 u32 their key
//!   greeting   0 "stcprsts"   8 u32 version   12 u32 platform, see `platform_code.rs`
//! ```

use stonecast_base::Span;
use stonecast_fabric::{RemoteAddress, Rkey};
use stonecast_session::{Greeting, Mismatch, Protocol, Side};

/// The protocol of requesters and responders. A plan is sound on one platform, so both sides declare their platform.
pub(crate) const PROTOCOL: Protocol = Protocol {
    magic: *b"stcprsts",
    name: "persistence plans",
    version: 2,
};
/// Bytes of an answer after the greeting.
const ANSWER_SIZE: usize = 44;

/// The description that a requester gives of itself: the program that it will run.
pub(crate) fn request(greeting: &Greeting, program: u64) -> Vec<u8> {
    greeting.say(&program.to_le_bytes())
}

/// Refuses a requester that will not run `program`: returns the reason, for people.
pub(crate) fn refusal(greeting: &Greeting, program: u64, request: &[u8]) -> Option<String> {
    let said = match greeting.hear(Side::Client, request) {
        Ok(said) => said,
        Err(mismatch) => return Some(mismatch.to_string()),
    };
    let theirs = said.try_into().ok().map(u64::from_le_bytes);
    (theirs != Some(program)).then(|| {
        "the requester runs another plan than this responder; make both plans from the same profile and scenario".to_owned()
    })
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
    /// The responder's receive buffers and their total size in bytes, if they lie in persistent memory.
    pub receive_buffers: Option<(RemoteAddress, u64)>,
}

impl Peer {
    pub fn encode(&self, greeting: &Greeting) -> Vec<u8> {
        let (buffers, buffers_size) = self.receive_buffers.unwrap_or((
            RemoteAddress {
                address: 0,
                rkey: Rkey(0),
            },
            0,
        ));
        let mut bytes = Vec::with_capacity(ANSWER_SIZE);
        bytes.extend_from_slice(&self.data.address.to_le_bytes());
        bytes.extend_from_slice(&self.data_size.to_le_bytes());
        bytes.extend_from_slice(&self.data.rkey.0.to_le_bytes());
        bytes.extend_from_slice(&self.message_size_max.to_le_bytes());
        bytes.extend_from_slice(&buffers.address.to_le_bytes());
        bytes.extend_from_slice(&buffers_size.to_le_bytes());
        bytes.extend_from_slice(&buffers.rkey.0.to_le_bytes());
        greeting.say(&bytes)
    }

    /// The description of a responder. `None` if it is invalid.
    pub fn parse(greeting: &Greeting, said: &[u8]) -> Result<Option<Self>, Mismatch> {
        let bytes = greeting.hear(Side::Server, said)?;
        Ok(bytes
            .first_chunk()
            .filter(|_| bytes.len() == ANSWER_SIZE)
            .and_then(Self::of))
    }

    fn of(bytes: &[u8; ANSWER_SIZE]) -> Option<Self> {
        let long = |at: usize| {
            u64::from_le_bytes(*bytes[at..].first_chunk().expect("the length was checked"))
        };
        let short = |at: usize| {
            u32::from_le_bytes(*bytes[at..].first_chunk().expect("the length was checked"))
        };
        let buffers = RemoteAddress {
            address: long(24),
            rkey: Rkey(short(40)),
        };
        let sound = Span::new(long(0), long(8)).end().is_some();
        sound.then(|| Self {
            data: RemoteAddress {
                address: long(0),
                rkey: Rkey(short(16)),
            },
            data_size: long(8),
            message_size_max: short(20),
            receive_buffers: (long(32) > 0).then_some((buffers, long(32))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::platform_code::platform_code;

    const REHEARSAL: fn() -> Greeting = || Greeting::of(PROTOCOL).on(platform_code(None));

    #[test]
    fn only_answers_are_read_back() {
        let greeting = REHEARSAL();
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
            let bytes = peer.encode(&greeting);
            assert_eq!(Peer::parse(&greeting, &bytes), Ok(Some(peer)));
            for size in 0..bytes.len() {
                let short = Peer::parse(&greeting, &bytes[..size]);
                assert!(matches!(short, Ok(None) | Err(_)), "{short:?}");
            }
        }
        let mut endless = Peer {
            data: place(u64::MAX, 3),
            data_size: 0,
            message_size_max: 0,
            receive_buffers: None,
        };
        assert!(matches!(
            Peer::parse(&greeting, &endless.encode(&greeting)),
            Ok(Some(_))
        ));
        endless.data_size = 1;
        let beyond = Peer::parse(&greeting, &endless.encode(&greeting));
        assert_eq!(beyond, Ok(None), "memory that ends beyond 2^64");
    }

    #[test]
    fn a_requester_of_another_version_or_program_is_refused_with_the_reason() {
        let greeting = REHEARSAL();
        assert_eq!(refusal(&greeting, 7, &request(&greeting, 7)), None);
        let older = Greeting::of(Protocol {
            version: 1,
            ..PROTOCOL
        })
        .on(platform_code(None));
        for (said, words) in [
            (request(&greeting, 8), "another plan"),
            (request(&greeting, 7)[..23].to_vec(), "another plan"),
            (
                request(&older, 7),
                "version 1 of persistence plans, the server version 2",
            ),
            (vec![0; 16], "not a client of persistence plans"),
        ] {
            let reason = refusal(&greeting, 7, &said).expect("refused");
            assert!(reason.contains(words), "{reason}");
        }
    }
}
