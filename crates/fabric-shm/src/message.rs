//! The packets between two control threads, on a Unix socket of type SEQPACKET.
//!
//! ```text
//!   0  magic "stncastM"   8  version   12  kind   16  body
//!
//!   1 connect         hello, private data        descriptors: area, keys [, bell] [, append queue]
//!   2 accept          hello, private data        descriptors: keys [, bell] [, append queue]
//!   3 reject          reason (UTF-8)
//!   4 region wanted   region, writable
//!   5 region granted  region, writable, offset in the file, size          descriptor: the file
//!   6 region denied   region, writable
//!   7 disconnect      cause
//!   8 wake
//! ```
//!
//! Magic, version, kind 3 and its body keep their places and meaning in all versions, so that programs of different
//! versions can tell each other why they part. Everything is checked; no content of a packet causes a panic.

use stonecast_fabric::DisconnectCause;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::append::AppendLayout;
use crate::layout::{PROTOCOL_VERSION, RING_CAPACITY};

/// Longest packet.
pub(crate) const PACKET_SIZE_MAX: usize = 4096;
/// The most descriptors that a packet carries.
pub(crate) const DESCRIPTORS_MAX: usize = 4;
/// The most bytes of private data.
pub(crate) const PRIVATE_DATA_SIZE_MAX: usize = 1024;
/// The most bytes of a reason; longer reasons are truncated.
const REASON_SIZE_MAX: usize = 1024;

const MAGIC: [u8; 8] = *b"stncastM";
const BELL: u32 = 1;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    version: U32,
    kind: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HelloBody {
    queue_pair: U32,
    rnr_retry_count: U32,
    rnr_retry_delay_ns: U64,
    ring_capacity: U64,
    flags: U32,
    /// 0: no append queue.
    append_stride: U32,
    append_slots: U64,
    append_capacity: U32,
    private_data_size: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RegionBody {
    region: U32,
    writable: U32,
    file_offset: U64,
    size: U64,
}

/// The description that an end of a connection gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The queue pair.
    pub(crate) queue_pair: u32,
    /// The number of times that it lets its sends be refused for lack of a buffer.
    pub(crate) rnr_retry_count: u32,
    /// Pause between two of these refusals, in nanoseconds.
    pub(crate) rnr_retry_delay_ns: u64,
    /// Whether its bell comes with this message.
    pub(crate) bell: bool,
    /// The queue to which messages to it go, if not the ring.
    pub(crate) append: Option<AppendLayout>,
    /// The data that the program sent.
    pub(crate) private_data: Vec<u8>,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Connect(Hello),
    Accept(Hello),
    Reject(String),
    RegionWanted {
        region: u32,
        writable: bool,
    },
    RegionGranted {
        region: u32,
        writable: bool,
        file_offset: u64,
        size: u64,
    },
    RegionDenied {
        region: u32,
        writable: bool,
    },
    Disconnect(DisconnectCause),
    Wake,
}

/// The reason why a packet is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misunderstood {
    #[error("the peer does not speak the protocol of stonecast")]
    Magic,
    #[error(
        "the peer speaks version {0} of the shared-memory protocol, and this program speaks version {PROTOCOL_VERSION}; use the same version of stonecast on both sides"
    )]
    Version(u32),
    #[error("the peer sent a malformed packet")]
    Malformed,
}

impl Hello {
    /// The number of descriptors that come with it, besides the area.
    pub(crate) fn descriptors(&self) -> usize {
        1 + usize::from(self.bell) + usize::from(self.append.is_some())
    }

    fn encode(&self, packet: &mut Vec<u8>) {
        assert!(self.private_data.len() <= PRIVATE_DATA_SIZE_MAX);
        let (stride, slots, capacity) = self.append.map_or((0, 0, 0), |append| {
            (append.stride, append.slots, append.capacity)
        });
        let body = HelloBody {
            queue_pair: self.queue_pair.into(),
            rnr_retry_count: self.rnr_retry_count.into(),
            rnr_retry_delay_ns: self.rnr_retry_delay_ns.into(),
            ring_capacity: RING_CAPACITY.into(),
            flags: if self.bell { BELL } else { 0 }.into(),
            append_stride: stride.into(),
            append_slots: slots.into(),
            append_capacity: capacity.into(),
            private_data_size: (self.private_data.len() as u32).into(),
        };
        packet.extend_from_slice(body.as_bytes());
        packet.extend_from_slice(&self.private_data);
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let (body, private_data) = HelloBody::ref_from_prefix(body).ok()?;
        let append = AppendLayout {
            capacity: body.append_capacity.get(),
            slots: body.append_slots.get(),
            stride: body.append_stride.get(),
        };
        let append = if append.stride == 0 {
            None
        } else {
            Some(append)
        };
        let is_right = private_data.len() == body.private_data_size.get() as usize
            && private_data.len() <= PRIVATE_DATA_SIZE_MAX
            && body.ring_capacity.get() == RING_CAPACITY
            && body.flags.get() & !BELL == 0
            && append.is_none_or(|append| append.size().is_some());
        is_right.then(|| Self {
            queue_pair: body.queue_pair.get(),
            rnr_retry_count: body.rnr_retry_count.get(),
            rnr_retry_delay_ns: body.rnr_retry_delay_ns.get(),
            bell: body.flags.get() & BELL != 0,
            append,
            private_data: private_data.to_vec(),
        })
    }
}

impl Message {
    /// The packet.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let kind: u32 = match self {
            Message::Connect(_) => 1,
            Message::Accept(_) => 2,
            Message::Reject(_) => 3,
            Message::RegionWanted { .. } => 4,
            Message::RegionGranted { .. } => 5,
            Message::RegionDenied { .. } => 6,
            Message::Disconnect(_) => 7,
            Message::Wake => 8,
        };
        let head = Head {
            magic: MAGIC,
            version: PROTOCOL_VERSION.into(),
            kind: kind.into(),
        };
        let mut packet = head.as_bytes().to_vec();
        let region_body = |region: u32, writable: bool, file_offset: u64, size: u64| RegionBody {
            region: region.into(),
            writable: u32::from(writable).into(),
            file_offset: file_offset.into(),
            size: size.into(),
        };
        match self {
            Message::Connect(hello) | Message::Accept(hello) => hello.encode(&mut packet),
            Message::Reject(reason) => packet.extend_from_slice(cut(reason).as_bytes()),
            &Message::RegionWanted { region, writable }
            | &Message::RegionDenied { region, writable } => {
                packet.extend_from_slice(region_body(region, writable, 0, 0).as_bytes());
            }
            &Message::RegionGranted {
                region,
                writable,
                file_offset,
                size,
            } => {
                packet
                    .extend_from_slice(region_body(region, writable, file_offset, size).as_bytes());
            }
            Message::Disconnect(cause) => {
                let code: u32 = match cause {
                    DisconnectCause::Requested => 0,
                    DisconnectCause::PeerDied => 1,
                    DisconnectCause::QueuePairError => 2,
                };
                packet.extend_from_slice(&code.to_le_bytes());
            }
            Message::Wake => {}
        }
        assert!(packet.len() <= PACKET_SIZE_MAX);
        packet
    }

    /// The message in a packet.
    pub(crate) fn decode(packet: &[u8]) -> Result<Self, Misunderstood> {
        let (head, body) = Head::ref_from_prefix(packet).map_err(|_| Misunderstood::Magic)?;
        if head.magic != MAGIC {
            return Err(Misunderstood::Magic);
        }
        let kind = head.kind.get();
        if kind == 3 {
            return Ok(Message::Reject(String::from_utf8_lossy(body).into_owned()));
        }
        if head.version.get() != PROTOCOL_VERSION {
            return Err(Misunderstood::Version(head.version.get()));
        }
        Self::decode_body(kind, body).ok_or(Misunderstood::Malformed)
    }

    fn decode_body(kind: u32, body: &[u8]) -> Option<Self> {
        Some(match kind {
            1 => Message::Connect(Hello::decode(body)?),
            2 => Message::Accept(Hello::decode(body)?),
            4 => {
                let body = RegionBody::ref_from_bytes(body).ok()?;
                Message::RegionWanted {
                    region: body.region.get(),
                    writable: flag(body.writable.get())?,
                }
            }
            5 => {
                let body = RegionBody::ref_from_bytes(body).ok()?;
                Message::RegionGranted {
                    region: body.region.get(),
                    writable: flag(body.writable.get())?,
                    file_offset: body.file_offset.get(),
                    size: body.size.get(),
                }
            }
            6 => {
                let body = RegionBody::ref_from_bytes(body).ok()?;
                Message::RegionDenied {
                    region: body.region.get(),
                    writable: flag(body.writable.get())?,
                }
            }
            7 => Message::Disconnect(match U32::ref_from_bytes(body).ok()?.get() {
                0 => DisconnectCause::Requested,
                1 => DisconnectCause::PeerDied,
                2 => DisconnectCause::QueuePairError,
                _ => return None,
            }),
            8 if body.is_empty() => Message::Wake,
            _ => return None,
        })
    }
}

fn flag(word: u32) -> Option<bool> {
    match word {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// As much of `reason` as a packet takes.
fn cut(reason: &str) -> &str {
    let end = (0..=REASON_SIZE_MAX.min(reason.len()))
        .rev()
        .find(|&end| reason.is_char_boundary(end));
    &reason[..end.unwrap_or(0)]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            queue_pair: 0x1_0007,
            rnr_retry_count: 7,
            rnr_retry_delay_ns: 1_000_000,
            bell: true,
            append: Some(AppendLayout {
                capacity: 16,
                slots: 1 << 16,
                stride: 64,
            }),
            private_data: b"hello".to_vec(),
        }
    }

    fn all() -> Vec<Message> {
        vec![
            Message::Connect(hello()),
            Message::Accept(Hello {
                bell: false,
                append: None,
                private_data: vec![9; PRIVATE_DATA_SIZE_MAX],
                ..hello()
            }),
            Message::Reject("no".into()),
            Message::RegionWanted {
                region: 7,
                writable: true,
            },
            Message::RegionGranted {
                region: 7,
                writable: false,
                file_offset: 4096,
                size: 1 << 40,
            },
            Message::RegionDenied {
                region: 7,
                writable: true,
            },
            Message::Disconnect(DisconnectCause::QueuePairError),
            Message::Wake,
        ]
    }

    #[test]
    fn every_message_reads_back_as_it_was_written() {
        for message in all() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn another_version_is_named_and_its_rejection_is_still_understood() {
        let mut packet = Message::Wake.encode();
        packet[8] = 9;
        assert_eq!(Message::decode(&packet), Err(Misunderstood::Version(9)));
        let mut packet = Message::Reject("too old".into()).encode();
        packet[8] = 9;
        assert_eq!(
            Message::decode(&packet),
            Ok(Message::Reject("too old".into()))
        );
    }

    #[test]
    fn every_truncated_or_changed_packet_is_refused_or_understood_without_a_panic() {
        for message in all() {
            let packet = message.encode();
            for end in 0..packet.len() {
                let _ = Message::decode(&packet[..end]);
            }
            for position in 0..packet.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut changed = packet.clone();
                    changed[position] = value;
                    let _ = Message::decode(&changed);
                }
            }
        }
        assert_eq!(
            Message::decode(b"GET / HTTP/1.1\r\n\r\n"),
            Err(Misunderstood::Magic)
        );
        assert_eq!(Message::decode(&[]), Err(Misunderstood::Magic));
    }

    #[test]
    fn a_long_reason_is_truncated_between_characters() {
        let reason = "é".repeat(REASON_SIZE_MAX);
        let Ok(Message::Reject(found)) = Message::decode(&Message::Reject(reason).encode()) else {
            panic!("understood")
        };
        assert_eq!(found, "é".repeat(REASON_SIZE_MAX / 2));
    }
}
