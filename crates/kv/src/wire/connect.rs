//! What both sides say when they connect.

use stonecast_log::{KEY_SIZE_MAX, LogFormat, UNIT_SIZE, VALUE_SIZE_MAX, record_size};
use stonecast_media::{SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes as _, FromZeros as _};

use super::layout::message;
use crate::metrics::ClientPath;
use crate::wire::LOG_SIZE_MAX;
use crate::wire::limits::{PROTOCOL_VERSION, STAGING_SIZE};

/// First bytes of what both sides say when they connect.
const MAGIC: [u8; 8] = *b"stonecdk";
/// The longest record: staging memory that cannot hold it would never take it.
const RECORD_SIZE_MAX: u64 = record_size(KEY_SIZE_MAX, VALUE_SIZE_MAX);

message! {
    /// Client's private data of the connection request.
    Hello, HELLO:
    magic: [u8; 8], "`stonecdk`";
    version: U32, "protocol version";
    path: u8, "how the client comes here: 0 one-sided, 1 through a gateway";
    reserved: [u8; 3], "zero";
}

message! {
    /// Server's private data when it accepts: what a client must know of the pool.
    Welcome, WELCOME:
    magic: [u8; 8], "`stonecdk`";
    version: U32, "protocol version";
    epoch: U32, "epoch of the server's run";
    uuid: [u8; 16], "pool UUID, read as a little-endian number";
    segment_size: U64, "segment size, bytes; a power of two, 2^18 to 2^30";
    segment_count: U32, "number of segments";
    staging_size: U32, "bytes of staging memory; 0: the client leases extents of the log";
    tag_key: U64, "tag key";
    sequence: U64, "commit sequence number of the latest write";
    session: U64, "names the connection, when the outcome of a write that was sent through it is asked for";
    publication: U32, "1: the client may ask for the rights to publish; 0: not";
}

impl Hello {
    pub fn new(path: ClientPath) -> Self {
        Self {
            magic: MAGIC,
            version: U32::new(PROTOCOL_VERSION),
            path: path as u8,
            reserved: [0; 3],
        }
    }

    /// How the client of a hello that is not refused comes to the store. What it says changes what is counted where.
    pub fn path(private_data: &[u8]) -> ClientPath {
        let said = Self::read_from_bytes(private_data).map(|hello| hello.path);
        ClientPath::ALL
            .into_iter()
            .find(|&path| said == Ok(path as u8))
            .unwrap_or_default()
    }

    /// The reason to refuse, for people, if there is one.
    pub fn refusal(private_data: &[u8]) -> Option<String> {
        match Self::read_from_bytes(private_data) {
            Ok(hello) if hello.magic == MAGIC && hello.version.get() == PROTOCOL_VERSION => None,
            Ok(hello) if hello.magic == MAGIC => Some(format!(
                "client speaks protocol version {}, this server {PROTOCOL_VERSION}; use the same version of stonecast on both sides",
                hello.version
            )),
            _ => Some("not a client of the direct store".to_owned()),
        }
    }
}

impl Welcome {
    pub fn new() -> Self {
        Self {
            magic: MAGIC,
            version: U32::new(PROTOCOL_VERSION),
            ..Self::new_zeroed()
        }
    }

    /// Takes what a server said. On error, what is wrong with it.
    ///
    /// Every number that a client calculates with is held against its limits here, so that no later calculation can leave
    /// the range of its type or divide by zero, whatever the server is.
    pub fn parse(private_data: &[u8]) -> Result<Self, &'static str> {
        let welcome =
            Self::read_from_bytes(private_data).map_err(|_| "the welcome has another length")?;
        if welcome.magic != MAGIC || welcome.version.get() != PROTOCOL_VERSION {
            return Err("the server speaks another protocol version");
        }
        let segment_size = welcome.segment_size.get();
        if !segment_size.is_power_of_two()
            || !(SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&segment_size)
        {
            return Err("the welcome names a segment size that no pool has");
        }
        if !(1..=LOG_SIZE_MAX / segment_size).contains(&u64::from(welcome.segment_count.get())) {
            return Err("the welcome names a number of segments that no pool has");
        }
        let staging = u64::from(welcome.staging_size.get());
        if staging != 0
            && (!(RECORD_SIZE_MAX..=STAGING_SIZE).contains(&staging)
                || !staging.is_multiple_of(UNIT_SIZE))
        {
            return Err("the welcome names staging memory of a size that no server gives");
        }
        Ok(welcome)
    }

    /// The facts of the pool that records depend on, without the secret.
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
            ..Welcome::new()
        }
    }

    #[test]
    fn a_client_of_another_version_is_refused_with_both_versions_named() {
        let mut hello = Hello::new(ClientPath::Gateway);
        assert_eq!(Hello::path(hello.as_bytes()), ClientPath::Gateway);
        assert_eq!(Hello::refusal(hello.as_bytes()), None);
        hello.version = U32::new(77);
        let reason = Hello::refusal(hello.as_bytes()).unwrap();
        assert!(
            reason.contains("77") && reason.contains(&PROTOCOL_VERSION.to_string()),
            "{reason}"
        );
        assert!(Hello::refusal(b"GET / HTTP/1.1\r\n").is_some());
    }

    /// Needs each of the checks of `parse`: without the first the limit of a value underflows, without the second a
    /// position overflows, without the third a record that fits nowhere stops the client.
    #[test]
    fn a_welcome_with_numbers_that_no_server_says_is_refused() {
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
