//! The messages that client and server exchange to connect.

use stonecast_log::{KEY_SIZE_MAX, LogFormat, UNIT_SIZE, VALUE_SIZE_MAX, record_size};
use stonecast_media::{SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN, SHARDS_MAX};
use stonecast_session::{Greeting, Mismatch, Protocol, Side};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes as _, FromZeros as _};

use super::layout::message;
use crate::error::StoreError;
use crate::metrics::ClientPath;
use crate::wire::limits::{PROTOCOL_VERSION, STAGING_SIZE};
use crate::wire::{KeyMap, LOG_SIZE_MAX};

/// The protocol of both sides. Its greeting is the start of [`Hello`] and [`Welcome`].
const PROTOCOL: Protocol = Protocol {
    magic: *b"stonecdk",
    name: "the KV store",
    version: PROTOCOL_VERSION,
};
/// The server makes writes durable for clients of every platform, so neither side declares a platform.
const GREETING: Greeting = Greeting::of(PROTOCOL);
/// Size of the longest record. Staging memory must have room for one.
const RECORD_SIZE_MAX: u64 = record_size(KEY_SIZE_MAX, VALUE_SIZE_MAX);

message! {
    /// The client's private data of the connection request.
    Hello, HELLO:
    magic: [u8; 8], "`stonecdk`";
    version: U32, "protocol version";
    path: u8, "path of the client: 0 one-sided, 1 gateway";
    reserved: [u8; 3], "zero";
}

message! {
    /// The server's private data of the acceptance: the facts of the pool that a client needs.
    Welcome, WELCOME:
    magic: [u8; 8], "`stonecdk`";
    version: U32, "protocol version";
    opening: U32, "opening of the server's run";
    uuid: [u8; 16], "pool UUID, read as a little-endian number";
    segment_size: U64, "segment size, bytes; a power of two, 2^18 to 2^30";
    segment_count: U32, "number of segments";
    staging_size: U32, "bytes of staging memory; 0: the client leases extents of the log";
    tag_key: U64, "tag key";
    sequence: U64, "commit sequence number of the latest write";
    session: U64, "number of the connection, for questions about the outcome of a write that was sent through it";
    publication: U16, "1: the client may ask for the rights to publish; 0: not";
    shards: U16, "number of shards, 1 to 64; each has an index";
    key_seed: U64, "seed of the hash of a key; the pools of a cluster have the same";
}

/// The reason why a client rejects a server's welcome.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadWelcome {
    /// The client cannot use this server.
    Mismatch(Mismatch),
    /// The welcome contains values that no server sends.
    Nonsense(&'static str),
}

impl BadWelcome {
    /// The error for the client of the server at `address`.
    pub fn at(self, address: &str) -> StoreError {
        match self {
            Self::Mismatch(mismatch) => StoreError::refused(address, mismatch.to_string()),
            Self::Nonsense(what) => StoreError::Protocol { what },
        }
    }
}

impl From<Mismatch> for BadWelcome {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(mismatch)
    }
}

impl From<&'static str> for BadWelcome {
    fn from(what: &'static str) -> Self {
        Self::Nonsense(what)
    }
}

impl Hello {
    pub fn new(path: ClientPath) -> Self {
        Self {
            magic: PROTOCOL.magic,
            version: U32::new(PROTOCOL_VERSION),
            path: path as u8,
            reserved: [0; 3],
        }
    }

    /// The path of the client of a hello that is not refused. The path decides only where the client's calls are
    /// counted.
    pub fn path(private_data: &[u8]) -> ClientPath {
        let said = Self::read_from_bytes(private_data).map(|hello| hello.path);
        ClientPath::ALL
            .into_iter()
            .find(|&path| said == Ok(path as u8))
            .unwrap_or_default()
    }

    /// The reason why the client is refused, if any.
    pub fn refusal(private_data: &[u8]) -> Option<Mismatch> {
        let heard = GREETING.hear(Side::Client, private_data);
        heard.err().or_else(|| {
            let parsed = Self::read_from_bytes(private_data);
            parsed.is_err().then_some(Mismatch::Stranger {
                who: Side::Client,
                protocol: PROTOCOL.name,
            })
        })
    }
}

impl Welcome {
    pub fn new() -> Self {
        Self {
            magic: PROTOCOL.magic,
            version: U32::new(PROTOCOL_VERSION),
            ..Self::new_zeroed()
        }
    }

    /// Checks the welcome of a server. An error names the fault.
    ///
    /// Every number that a client calculates with is checked against its limits here, so that no later calculation
    /// leaves the range of its type or divides by zero, whatever the server sends.
    pub fn parse(private_data: &[u8]) -> Result<Self, BadWelcome> {
        GREETING.hear(Side::Server, private_data)?;
        let welcome =
            Self::read_from_bytes(private_data).map_err(|_| "the welcome has another length")?;
        let segment_size = welcome.segment_size.get();
        if !segment_size.is_power_of_two()
            || !(SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&segment_size)
        {
            return Err("the welcome names a segment size that no pool has".into());
        }
        if !(1..=LOG_SIZE_MAX / segment_size).contains(&u64::from(welcome.segment_count.get())) {
            return Err("the welcome names a number of segments that no pool has".into());
        }
        if !(1..=SHARDS_MAX).contains(&u32::from(welcome.shards.get())) {
            return Err("the welcome names a number of shards that no pool has".into());
        }
        let staging = u64::from(welcome.staging_size.get());
        if staging != 0
            && (!(RECORD_SIZE_MAX..=STAGING_SIZE).contains(&staging)
                || !staging.is_multiple_of(UNIT_SIZE))
        {
            return Err("the welcome names staging memory of a size that no server gives".into());
        }
        Ok(welcome)
    }

    /// The division of the pool's keys among its shards.
    pub fn keys(&self) -> KeyMap {
        KeyMap {
            seed: self.key_seed.get(),
            shards: self.shards.get().into(),
        }
    }

    /// The facts of the pool on which records depend, without the secret.
    pub fn format(&self) -> LogFormat {
        LogFormat {
            uuid: u128::from_le_bytes(self.uuid),
            tag_key: self.tag_key.get(),
            secret: None,
            segment_size: self.segment_size.get(),
            segment_count: self.segment_count.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes as _;

    use super::*;

    fn sane() -> Welcome {
        Welcome {
            segment_size: U64::new(1 << 20),
            segment_count: U32::new(16),
            shards: U16::new(1),
            ..Welcome::new()
        }
    }

    #[test]
    fn a_client_of_another_version_is_refused_with_both_versions_named() {
        let mut hello = Hello::new(ClientPath::Gateway);
        assert_eq!(Hello::path(hello.as_bytes()), ClientPath::Gateway);
        assert_eq!(Hello::refusal(hello.as_bytes()), None);
        hello.version = U32::new(77);
        let reason = Hello::refusal(hello.as_bytes()).unwrap().to_string();
        assert!(
            reason.contains("77") && reason.contains(&PROTOCOL_VERSION.to_string()),
            "{reason}"
        );
        for stranger in [
            &b"GET / HTTP/1.1\r\n"[..],
            &Hello::new(ClientPath::Gateway).as_bytes()[..15],
        ] {
            let reason = Hello::refusal(stranger).unwrap().to_string();
            assert!(reason.contains("not a client of the KV store"), "{reason}");
        }
    }

    #[test]
    fn a_server_of_another_version_is_distinguished_from_a_server_that_sends_nonsense() {
        let mut welcome = sane();
        welcome.version = U32::new(77);
        let Err(BadWelcome::Mismatch(mismatch)) = Welcome::parse(welcome.as_bytes()) else {
            panic!("another version");
        };
        let reason = mismatch.to_string();
        let ours = format!("client version {PROTOCOL_VERSION}");
        assert!(
            reason.contains("server speaks protocol version 77") && reason.contains(&ours),
            "{reason}"
        );
        let long = [sane().as_bytes(), &[0]].concat();
        assert!(matches!(
            Welcome::parse(&long),
            Err(BadWelcome::Nonsense(_))
        ));
    }

    /// Fails without any of the checks of `parse`: without the first, the limit of a value underflows; without the
    /// second, a position overflows; without the third, a record that fits nowhere stops the client.
    #[test]
    fn a_welcome_with_numbers_that_no_server_sends_is_refused() {
        assert!(Welcome::parse(sane().as_bytes()).is_ok());
        for segment_size in [0, 1, 64, 2048, (1 << 20) + 64, 1 << 31, 1 << 63] {
            assert!(
                Welcome::parse(
                    Welcome {
                        segment_size: U64::new(segment_size),
                        ..sane()
                    }
                    .as_bytes()
                )
                .is_err()
            );
        }
        for segment_count in [0, (1 << 20) + 1, u32::MAX] {
            assert!(
                Welcome::parse(
                    Welcome {
                        segment_count: U32::new(segment_count),
                        ..sane()
                    }
                    .as_bytes()
                )
                .is_err()
            );
        }
        for shards in [0, 65, u16::MAX] {
            let shards = U16::new(shards);
            assert!(Welcome::parse(Welcome { shards, ..sane() }.as_bytes()).is_err());
        }
        for staging_size in [1, 64, 4096, 2 << 20 | 1, u32::MAX] {
            assert!(
                Welcome::parse(
                    Welcome {
                        staging_size: U32::new(staging_size),
                        ..sane()
                    }
                    .as_bytes()
                )
                .is_err()
            );
        }
        assert!(Welcome::parse(&sane().as_bytes()[1..]).is_err());
        assert!(Welcome::parse(&[]).is_err());
    }
}
