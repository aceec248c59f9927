//! The messages between two nodes, as bytes.
//!
//! ```text
//!   ask       0 kind 1 u32    4 configuration    28 serial u64    36 groups
//!   piece     0 kind 2 u32    4 configuration    28 serial u64    36 size u32    40 offset u32    44 bytes, to the end
//!   answer    0 configuration    24 serial u64    32 held u64, nanoseconds    40 groups
//!   configuration    0 epoch u64    8 number of the attempt that stored it, 16 bytes
//!   groups    0 below u32    4 count u32     8 exceptions, count times u32, ascending
//! ```
//!
//! Numbers are little-endian. Each group is named by its place in the configuration that both sides are in. One ask is
//! for the leases of all groups that its sender leads, so the size of an ask does not grow with their number. A node
//! whose epoch is behind is told the configuration, in pieces.

use stonecast_cluster::{ConfigurationId, Epoch};
use uuid::Uuid;

/// Size of the longest message in bytes.
pub const MESSAGE_SIZE: u32 = 1024;
/// The most exceptions of one message.
const EXCEPTIONS_MAX: usize = (MESSAGE_SIZE as usize - 40 - 8) / 4;

/// Places of groups in a configuration: all places below a bound, with exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    below: u32,
    exceptions: Vec<u32>,
}

impl Places {
    /// No place.
    pub const NONE: Self = Self {
        below: 0,
        exceptions: Vec::new(),
    };

    /// Returns the places below `count` without `exceptions`, which ascend. If there are too many exceptions for a
    /// message, the places end before the first exception without room. The sender asks for the rest later.
    pub fn all_but(count: usize, exceptions: impl IntoIterator<Item = usize>) -> Self {
        let mut places = Self {
            below: place(count),
            exceptions: Vec::new(),
        };
        for exception in exceptions {
            if places.exceptions.len() == EXCEPTIONS_MAX {
                places.below = place(exception);
                break;
            }
            places.exceptions.push(place(exception));
        }
        places
    }

    /// Returns whether `index` is one of the places.
    pub fn contains(&self, index: usize) -> bool {
        let index = place(index);
        index < self.below && self.exceptions.binary_search(&index).is_err()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.below.to_le_bytes());
        bytes.extend_from_slice(&place(self.exceptions.len()).to_le_bytes());
        for exception in &self.exceptions {
            bytes.extend_from_slice(&exception.to_le_bytes());
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let below = fields.u32()?;
        let count = fields.u32()?;
        let exceptions: Result<Vec<_>, _> = (0..count).map(|_| fields.u32()).collect();
        let exceptions = exceptions?;
        match exceptions.is_sorted() {
            true => Ok(Self { below, exceptions }),
            false => Err(fields.wrong("exceptions that do not ascend")),
        }
    }
}

fn place(index: usize) -> u32 {
    u32::try_from(index).expect("a configuration has fewer groups than its document has bytes")
}

/// The request of a primary for leases of a copy. Any node also asks a peer in this way whether the peer is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The configuration of the asker.
    pub configuration: ConfigurationId,
    /// Counts the asks of one node.
    pub serial: u64,
    /// The groups that the asker would lead, if it is their primary.
    pub groups: Places,
}

/// The answer of a copy, with its grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The configuration of the copy. If it differs from that of the ask, nothing is granted.
    pub configuration: ConfigurationId,
    /// The number of the request.
    pub serial: u64,
    /// The nanoseconds, from the sending of the ask, for which the asker may count on the grants.
    pub held_ns: u64,
    /// The groups whose leases are granted, among the groups of the ask that the copy has.
    pub groups: Places,
}

/// A part of the document of the configuration that the sender is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The configuration of the sender.
    pub configuration: ConfigurationId,
    /// Counts the asks and pieces of one node.
    pub serial: u64,
    /// The size of the document in bytes.
    pub size: u32,
    /// The offset of the piece in the document.
    pub offset: u32,
    /// The bytes of the piece.
    pub bytes: Vec<u8>,
}

impl Piece {
    /// The most bytes of a piece.
    pub const SIZE_MAX: usize = MESSAGE_SIZE as usize - 44;
}

/// A message that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// An ask.
    Ask(Ask),
    /// A piece of the configuration.
    Piece(Piece),
}

const ASK: u32 = 1;
const PIECE: u32 = 2;

impl Request {
    /// Encodes the request as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, configuration, serial) = match self {
            Self::Ask(ask) => (ASK, ask.configuration, ask.serial),
            Self::Piece(piece) => (PIECE, piece.configuration, piece.serial),
        };
        let mut bytes = kind.to_le_bytes().to_vec();
        encode(configuration, &mut bytes);
        bytes.extend_from_slice(&serial.to_le_bytes());
        match self {
            Self::Ask(ask) => ask.groups.encode(&mut bytes),
            Self::Piece(piece) => {
                bytes.extend_from_slice(&piece.size.to_le_bytes());
                bytes.extend_from_slice(&piece.offset.to_le_bytes());
                bytes.extend_from_slice(&piece.bytes);
            }
        }
        bytes
    }

    /// Decodes the bytes that a peer sent.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields { bytes, offset: 0 };
        let unknown = fields.wrong("an unknown kind");
        let kind = fields.u32()?;
        let (configuration, serial) = (fields.configuration()?, fields.u64()?);
        let request = match kind {
            ASK => Self::Ask(Ask {
                configuration,
                serial,
                groups: Places::decode(&mut fields)?,
            }),
            PIECE => Self::Piece(Piece {
                configuration,
                serial,
                size: fields.u32()?,
                offset: fields.u32()?,
                bytes: fields.rest().to_vec(),
            }),
            _ => return Err(unknown),
        };
        fields.end()?;
        Ok(request)
    }
}

impl Answer {
    /// Encodes the answer as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(self.configuration, &mut bytes);
        for field in [self.serial, self.held_ns] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        self.groups.encode(&mut bytes);
        bytes
    }

    /// Decodes the bytes that a peer sent.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields { bytes, offset: 0 };
        let answer = Self {
            configuration: fields.configuration()?,
            serial: fields.u64()?,
            held_ns: fields.u64()?,
            groups: Places::decode(&mut fields)?,
        };
        fields.end()?;
        Ok(answer)
    }
}

fn encode(configuration: ConfigurationId, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&configuration.epoch.0.to_le_bytes());
    bytes.extend_from_slice(configuration.attempt.as_bytes());
}

/// A peer sent bytes without a meaning. Its connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {size} bytes has {found} at byte {offset}")]
pub struct Malformed {
    /// The size of the message in bytes.
    pub size: usize,
    /// The offset of the wrong bytes.
    pub offset: usize,
    /// The description of the wrong bytes.
    pub found: &'static str,
}

/// Reads fields, one after the other, from bytes that a peer sent.
pub(crate) struct Fields<'a> {
    pub bytes: &'a [u8],
    pub offset: usize,
}

impl<'a> Fields<'a> {
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn configuration(&mut self) -> Result<ConfigurationId, Malformed> {
        Ok(ConfigurationId {
            epoch: Epoch(self.u64()?),
            attempt: Uuid::from_bytes(self.array()?),
        })
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let rest = &self.bytes[self.offset..];
        let field = rest.first_chunk().ok_or_else(|| self.wrong("no more"))?;
        self.offset += N;
        Ok(*field)
    }

    /// Reads all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.offset..];
        self.offset = self.bytes.len();
        rest
    }

    pub fn end(&self) -> Result<(), Malformed> {
        match self.offset == self.bytes.len() {
            true => Ok(()),
            false => Err(self.wrong("more than the message")),
        }
    }

    pub fn wrong(&self, found: &'static str) -> Malformed {
        Malformed {
            size: self.bytes.len(),
            offset: self.offset,
            found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: ConfigurationId = ConfigurationId {
        epoch: Epoch(7),
        attempt: Uuid::from_u128(0x5707_eca5),
    };

    #[test]
    fn exceptions_that_find_no_room_end_the_places_before_them() {
        let places = Places::all_but(5_000, 1_000..2_000);
        assert!(places.contains(999) && !places.contains(1_000));
        assert!(!places.contains(1_999) && !places.contains(4_000));
        let answer = Answer {
            configuration: CONFIGURATION,
            serial: 8,
            held_ns: 9,
            groups: places,
        };
        let bytes = answer.encode();
        assert!(bytes.len() <= MESSAGE_SIZE as usize);
        assert_eq!(Answer::decode(&bytes), Ok(answer));
    }

    #[test]
    fn a_message_that_is_cut_or_longer_or_out_of_order_is_named() {
        let ask = Request::Ask(Ask {
            configuration: CONFIGURATION,
            serial: 2,
            groups: Places::all_but(9, [3, 4]),
        });
        let bytes = ask.encode();
        assert_eq!(Request::decode(&bytes), Ok(ask));
        let found = |bytes: &[u8]| Request::decode(bytes).unwrap_err().found;
        for size in 0..bytes.len() {
            assert_eq!(found(&bytes[..size]), "no more");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Request::decode(&longer).unwrap_err().offset, bytes.len());
        let changed = |offset: usize, to: u32| {
            let mut changed = bytes.clone();
            changed[offset..offset + 4].copy_from_slice(&to.to_le_bytes());
            changed
        };
        assert_eq!(found(&changed(44, 9)), "exceptions that do not ascend");
        assert_eq!(found(&changed(40, u32::MAX)), "no more");
        assert_eq!(found(&changed(0, 7)), "an unknown kind");
    }

    #[test]
    fn a_piece_of_any_size_comes_as_it_was_sent() {
        for size in [0, 1, Piece::SIZE_MAX] {
            let piece = Request::Piece(Piece {
                configuration: CONFIGURATION,
                serial: 4,
                size: 5_000,
                offset: 996,
                bytes: vec![7; size],
            });
            let bytes = piece.encode();
            assert!(bytes.len() <= MESSAGE_SIZE as usize);
            assert_eq!(Request::decode(&bytes), Ok(piece));
        }
    }
}
