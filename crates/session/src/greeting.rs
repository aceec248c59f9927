//! The first bytes that both sides of a connection send.
//!
//! ```text
//!   0 magic    8 version u32    12 platform u32, if the protocol depends on it    then the protocol's own data
//! ```
//!
//! Numbers are little-endian. The magic is the same in all versions of a protocol, so that each side can distinguish
//! another version, which the user can correct, from a stranger.

use std::fmt;

/// A protocol that is spoken over connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The first bytes of both sides, in every version.
    pub magic: [u8; 8],
    /// The name of the protocol, for messages: "the KV store".
    pub name: &'static str,
    /// The version that this build speaks. The version is not negotiated: both sides must speak the same one.
    pub version: u32,
}

/// The platform that one side declares, as a number and in words.
#[derive(Clone, Copy)]
pub struct PlatformCode {
    /// The number.
    pub code: u32,
    /// The meaning of any such number, for messages, even of a number that this build does not know.
    pub words: fn(u32) -> String,
}

impl fmt::Debug for PlatformCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&(self.words)(self.code))
    }
}

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that connects.
    Client,
    /// The side that accepts.
    Server,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// The reason why two sides do not understand each other. Nothing was made for the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The peer's first bytes do not belong to the protocol.
    #[error("not a {who} of {protocol}; check the address")]
    Stranger {
        /// The side of the peer.
        who: Side,
        /// The protocol of this side.
        protocol: &'static str,
    },
    /// The peer speaks another version.
    #[error(
        "the {who} speaks protocol version {theirs} of {protocol}, the {} version {ours}; use the same version of stonecast on both \
         sides", .who.other()
    )]
    Version {
        /// The side of the peer.
        who: Side,
        /// The protocol of both.
        protocol: &'static str,
        /// The peer's version.
        theirs: u32,
        /// This side's version.
        ours: u32,
    },
    /// The peer's platform differs: data that are durable on one platform may not be durable on the other.
    #[error(
        "the {who}'s platform is {theirs}, the {}'s is {ours}; declare the same platform on both sides", .who.other()
    )]
    Platform {
        /// The side of the peer.
        who: Side,
        /// The declaration of the peer.
        theirs: String,
        /// The declaration of this side.
        ours: String,
    },
}

/// The greeting that one side sends, and expects to receive.
///
/// ```
/// use stonecast_session::{Greeting, Protocol, Side};
///
/// const COUNTER: Protocol = Protocol { magic: *b"counter!", name: "the counter", version: 3 };
/// let said = Greeting::of(COUNTER).say(b"add 1");
/// assert_eq!(Greeting::of(COUNTER).hear(Side::Client, &said), Ok(&b"add 1"[..]));
///
/// let newer = Protocol { version: 4, ..COUNTER };
/// let refusal = Greeting::of(newer).hear(Side::Client, &said).unwrap_err().to_string();
/// assert!(refusal.starts_with("the client speaks protocol version 3 of the counter, the server version 4"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Greeting {
    protocol: Protocol,
    platform: Option<PlatformCode>,
}

impl Greeting {
    /// The greeting of a protocol that works on any platforms.
    pub const fn of(protocol: Protocol) -> Self {
        Self {
            protocol,
            platform: None,
        }
    }

    /// The greeting of a protocol whose promises depend on the platform: both sides must declare `platform`.
    pub const fn on(self, platform: PlatformCode) -> Self {
        Self {
            platform: Some(platform),
            ..self
        }
    }

    /// The private data to send: the greeting, then `rest`.
    pub fn say(&self, rest: &[u8]) -> Vec<u8> {
        let Protocol { magic, version, .. } = self.protocol;
        let mut said = magic.to_vec();
        said.extend_from_slice(&version.to_le_bytes());
        if let Some(platform) = self.platform {
            said.extend_from_slice(&platform.code.to_le_bytes());
        }
        said.extend_from_slice(rest);
        said
    }

    /// The part of the peer's data `said` that follows its greeting; `who` is the peer's side.
    pub fn hear<'a>(&self, who: Side, said: &'a [u8]) -> Result<&'a [u8], Mismatch> {
        let Protocol {
            magic,
            name: protocol,
            version: ours,
        } = self.protocol;
        let stranger = Mismatch::Stranger { who, protocol };
        let Some((first, rest)) = said.split_first_chunk() else {
            return Err(stranger);
        };
        let Some((theirs, rest)) = rest.split_first_chunk().filter(|_| *first == magic) else {
            return Err(stranger);
        };
        let theirs = u32::from_le_bytes(*theirs);
        if theirs != ours {
            return Err(Mismatch::Version {
                who,
                protocol,
                theirs,
                ours,
            });
        }
        let Some(PlatformCode { code, words }) = self.platform else {
            return Ok(rest);
        };
        let (declared, rest) = rest.split_first_chunk().ok_or(stranger)?;
        let declared = u32::from_le_bytes(*declared);
        if declared != code {
            return Err(Mismatch::Platform {
                who,
                theirs: words(declared),
                ours: words(code),
            });
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOCOL: Protocol = Protocol {
        magic: *b"stonetst",
        name: "the test",
        version: 7,
    };

    fn words(code: u32) -> String {
        format!("number {code}")
    }

    #[test]
    fn a_greeting_is_understood_by_the_same_version_on_the_same_platform() {
        let greeting = Greeting::of(PROTOCOL);
        assert_eq!(greeting.say(b"rest").len(), 16);
        for greeting in [greeting, greeting.on(PlatformCode { code: 9, words })] {
            for rest in [&b""[..], b"rest"] {
                let said = greeting.say(rest);
                assert_eq!(greeting.hear(Side::Server, &said), Ok(rest));
            }
        }
    }

    #[test]
    fn another_version_or_platform_is_refused_with_both_named_and_a_stranger_is_refused_as_such() {
        let platform = |code| Greeting::of(PROTOCOL).on(PlatformCode { code, words });
        let older = Greeting::of(Protocol {
            version: 6,
            ..PROTOCOL
        });
        let refusal = |who, said: &[u8]| platform(3).hear(who, said).unwrap_err().to_string();
        let version = refusal(Side::Client, &older.say(b""));
        assert_eq!(
            version,
            "the client speaks protocol version 6 of the test, the server version 7; use the same version of stonecast on both sides"
        );
        let other = refusal(Side::Server, &platform(4).say(b""));
        assert_eq!(
            other,
            "the server's platform is number 4, the client's is number 3; declare the same platform on both sides"
        );
        let said = platform(3).say(b"");
        for stranger in [
            b"GET / HTTP/1.1\r\n".as_slice(),
            &said[..15],
            &said[..11],
            b"",
        ] {
            assert!(refusal(Side::Client, stranger).starts_with("not a client of the test"));
        }
    }
}
