//! The words with which a session of letters begins.

use std::collections::BTreeMap;

use stonecast_cluster::{NodeName, Nonce};
use stonecast_session::{Greeting, Mismatch, Protocol, Side};

pub const GREETING: Greeting = Greeting::of(Protocol {
    magic: *b"stcpostn",
    name: "letters between nodes",
    version: 3,
});
const NONCE_SIZE: usize = 16;

/// The node that connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub nonce: Nonce,
    /// Counts the starts of the node: a letter of an earlier start says nothing about the present
    /// state of the node.
    pub incarnation: u64,
    pub name: NodeName,
}

/// The nodes that may send letters, each in its present start.
pub type Known = BTreeMap<NodeName, u64>;

/// The reason why a peer is refused, in words for the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    #[error("the hello names no node")]
    NamesNobody,
    #[error("a node of cluster {found}, and this one is of {known}")]
    OtherCluster { found: Nonce, known: Nonce },
    #[error("the configuration that is in force here names no node {name}")]
    NotNamed { name: NodeName },
    #[error(
        "start {found} of node {name}, and the configuration that is in force here names start {known}"
    )]
    OtherStart {
        name: NodeName,
        found: u64,
        known: u64,
    },
}

impl Hello {
    /// Whether a peer wants to reach the post.
    pub fn is_said(said: &[u8]) -> bool {
        GREETING.hear(Side::Client, said).is_ok()
    }

    /// The bytes that a node sends.
    pub fn say(&self) -> Vec<u8> {
        let mut said = self.nonce.as_bytes().to_vec();
        said.extend(self.incarnation.to_le_bytes());
        said.extend_from_slice(self.name.as_str().as_bytes());
        GREETING.say(&said)
    }

    /// The node that says hello, if it is one of `known` in the cluster `nonce`.
    pub fn judge(said: &[u8], nonce: Nonce, known: &Known) -> Result<Self, Refused> {
        let said = GREETING.hear(Side::Client, said)?;
        let hello = Self::read(said).ok_or(Refused::NamesNobody)?;
        let (found, name) = (hello.nonce, hello.name.clone());
        if found != nonce {
            let known = nonce;
            return Err(Refused::OtherCluster { found, known });
        }
        match known.get(&name) {
            None => Err(Refused::NotNamed { name }),
            Some(&known) if known != hello.incarnation => {
                let found = hello.incarnation;
                Err(Refused::OtherStart { name, found, known })
            }
            Some(_) => Ok(hello),
        }
    }

    fn read(said: &[u8]) -> Option<Self> {
        let (nonce, said) = said.split_first_chunk::<NONCE_SIZE>()?;
        let (incarnation, name) = said.split_first_chunk()?;
        Some(Self {
            nonce: Nonce::from_bytes(*nonce),
            incarnation: u64::from_le_bytes(*incarnation),
            name: std::str::from_utf8(name).ok()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = Nonce::from_u128(17);

    fn name(name: &str) -> NodeName {
        name.parse().unwrap()
    }

    fn hello(nonce: u128, incarnation: u64, of: &str) -> Hello {
        Hello {
            nonce: Nonce::from_u128(nonce),
            incarnation,
            name: name(of),
        }
    }

    fn judge(hello: &Hello) -> Result<Hello, Refused> {
        let known = Known::from([(name("a"), 3)]);
        Hello::judge(&hello.say(), NONCE, &known)
    }

    #[test]
    fn a_node_of_the_configuration_is_heard_in_its_present_start() {
        let said = hello(17, 3, "a");
        assert_eq!(judge(&said), Ok(said));
    }

    /// Needs the look at the configuration: each name that a peer makes up would keep a session, and a confirmation of
    /// an earlier start would count.
    #[test]
    fn strangers_and_earlier_starts_are_refused_by_name() {
        let (found, known) = (Nonce::from_u128(18), NONCE);
        let refused = judge(&hello(18, 3, "a"));
        assert_eq!(refused, Err(Refused::OtherCluster { found, known }));
        let refused = judge(&hello(17, 3, "b"));
        assert_eq!(refused, Err(Refused::NotNamed { name: name("b") }));
        for found in [2, 4] {
            let (name, known) = (name("a"), 3);
            let refused = judge(&hello(17, found, "a"));
            assert_eq!(refused, Err(Refused::OtherStart { name, found, known }));
        }
        let known = Known::from([(name("a"), 3)]);
        let bytes = GREETING.say(&[0; 20]);
        let refused = Hello::judge(&bytes, NONCE, &known);
        assert_eq!(refused, Err(Refused::NamesNobody));
    }
}
