//! The first words of both sides.
//!
//! ```text
//!   hello     greeting 12    16 bytes nonce of the cluster    name of the primary's node, to the end
//!   welcome   greeting 12    u64 number of the connection     16 bytes append key of the backup's pool
//! ```
//!
//! The platform travels later, in the first notice: its description names the window that READs go to, and a backup
//! opens that window only to an established connection.

use stonecast_cluster::{NodeName, Nonce};
use stonecast_session::{Greeting, Mismatch, Protocol, Side};

const GREETING: Greeting = Greeting::of(Protocol {
    magic: *b"stcappnd",
    name: "appends between nodes",
    version: 1,
});
const NONCE_SIZE: usize = 16;
const WELCOME_SIZE: usize = 24;

/// The requester of a session: the node of a primary, and the cluster of that node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Nonce of the cluster's configuration.
    pub nonce: Nonce,
    /// The node.
    pub node: NodeName,
}

/// The reason why bytes are no hello or no welcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unheard {
    /// The first bytes belong to another protocol or version.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The rest has no meaning.
    #[error(
        "the {side} says {size} bytes that name nobody; use the same version of stonecast on both sides"
    )]
    Meaningless {
        /// The side that sent the bytes.
        side: Side,
        /// Bytes after the greeting.
        size: usize,
    },
}

impl Hello {
    /// Whether the first bytes of a request to connect ask for appends, in this version of the protocol.
    pub fn is_said(said: &[u8]) -> bool {
        GREETING.hear(Side::Client, said).is_ok()
    }

    pub(crate) fn say(&self) -> Vec<u8> {
        let mut said = self.nonce.as_bytes().to_vec();
        said.extend_from_slice(self.node.as_str().as_bytes());
        GREETING.say(&said)
    }

    pub(crate) fn hear(said: &[u8]) -> Result<Self, Unheard> {
        let side = Side::Client;
        let said = GREETING.hear(side, said)?;
        let meaningless = Unheard::Meaningless {
            side,
            size: said.len(),
        };
        let (nonce, name) = said
            .split_first_chunk::<NONCE_SIZE>()
            .ok_or_else(|| meaningless.clone())?;
        let name = std::str::from_utf8(name).ok();
        let node = name.and_then(|name| name.parse().ok()).ok_or(meaningless)?;
        Ok(Self {
            nonce: Nonce::from_bytes(*nonce),
            node,
        })
    }
}

/// The words of a backup that accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub connection: u64,
    /// The words of the append key.
    pub key: [u64; 2],
}

impl Welcome {
    pub fn say(&self) -> Vec<u8> {
        let words = [self.connection, self.key[0], self.key[1]];
        let said: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        GREETING.say(&said)
    }

    pub fn hear(said: &[u8]) -> Result<Self, Unheard> {
        let side = Side::Server;
        let said = GREETING.hear(side, said)?;
        let bytes: [u8; WELCOME_SIZE] = said.try_into().map_err(|_| Unheard::Meaningless {
            side,
            size: said.len(),
        })?;
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("in bounds"));
        Ok(Self {
            connection: word(0),
            key: [word(8), word(16)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            nonce: Nonce::from_u128(7),
            node: "rack-1.a".parse().unwrap(),
        }
    }

    #[test]
    fn both_sides_hear_what_the_other_one_says_and_no_part_of_it() {
        let said = hello().say();
        assert_eq!(Hello::hear(&said), Ok(hello()));
        for size in 0..said.len() - hello().node.as_str().len() + 1 {
            assert!(Hello::hear(&said[..size]).is_err(), "{size} bytes");
        }
        let welcome = Welcome {
            connection: 3,
            key: [4, 5],
        };
        let said = welcome.say();
        assert_eq!(Welcome::hear(&said), Ok(welcome));
        for size in 0..said.len() {
            assert!(Welcome::hear(&said[..size]).is_err(), "{size} bytes");
        }
    }

    #[test]
    fn a_name_that_names_no_node_is_refused() {
        let mut said = hello().say();
        *said.last_mut().unwrap() = b'/';
        let refused = Hello::hear(&said).unwrap_err().to_string();
        assert!(refused.contains("name nobody"), "{refused}");
        *said.last_mut().unwrap() = 0xff;
        assert!(Hello::hear(&said).is_err());
    }
}
