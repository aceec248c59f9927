//! Sealed messages: a number for the kind, then the fields.
//!
//! | number | message | fields |
//! | --- | --- | --- |
//! | - | welcome | `WelcomeBytes`; it travels inside the handshake |
//! | 1 | connect | `ConnectBytes`, private data |
//! | 2 | accepted | `EndpointBytes`, private data |
//! | 3 | rejected | reason, UTF-8 |
//! | 4 | ready | |
//! | 5 | heartbeat | |
//! | 6 | goodbye | cause, one byte |
//!
//! Every byte that comes from the wire is checked here, in [`Message::decode`] and [`Welcome::decode`], before it
//! becomes a value.

use std::time::Duration;

use stonecast_fabric::DisconnectCause;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ControlError;
use super::handshake::MESSAGE_SIZE_MAX;
use super::lease::LeaseTerms;
use super::profile::{PeerProfile, ProfileBytes};
use super::ticket::TICKET_SIZE;
use crate::path::{Endpoint, Gid};

/// The most bytes of private data, in either direction.
pub const PRIVATE_DATA_SIZE_MAX: usize = 1024;
/// The most bytes of a reason; longer reasons are truncated.
const REASON_SIZE_MAX: usize = 512;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EndpointBytes {
    queue_pair: U32,
    first_packet: U32,
    gid: [u8; 16],
    lid: U16,
    mtu: u8,
    reads_in: u8,
    reads_out: u8,
    reserved: [u8; 3],
    send_capacity: U32,
    rnr_retry_count: U32,
    rnr_retry_delay_ns: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ConnectBytes {
    ticket: [u8; TICKET_SIZE],
    run: U64,
    profile: ProfileBytes,
    endpoint: EndpointBytes,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WelcomeBytes {
    run: U64,
    ticket: [u8; TICKET_SIZE],
    ticket_lifetime_ms: U32,
    lease_ms: U32,
    connections_max: U32,
    send_capacity_max: U32,
    reads_max: u8,
    reserved: [u8; 7],
    profile: ProfileBytes,
}

const CONNECT: u8 = 1;
const ACCEPTED: u8 = 2;
const REJECTED: u8 = 3;
const READY: u8 = 4;
const HEARTBEAT: u8 = 5;
const GOODBYE: u8 = 6;

const _: () = assert!(size_of::<ConnectBytes>() + 1 + PRIVATE_DATA_SIZE_MAX <= MESSAGE_SIZE_MAX);

/// The peer's reason for a goodbye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// The program requested it.
    Requested,
    /// The queue pair failed.
    QueuePairError,
    /// The program ended without a goodbye, or its lease expired; never sent.
    Died,
}

impl From<EndCause> for DisconnectCause {
    fn from(cause: EndCause) -> Self {
        match cause {
            EndCause::Requested => DisconnectCause::Requested,
            EndCause::QueuePairError => DisconnectCause::QueuePairError,
            EndCause::Died => DisconnectCause::PeerDied,
        }
    }
}

/// The server's message to a holder of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Welcome {
    /// The number of this run of the server.
    pub run: u64,
    pub ticket: [u8; TICKET_SIZE],
    pub terms: LeaseTerms,
    pub profile: PeerProfile,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Connect {
        ticket: [u8; TICKET_SIZE],
        run: u64,
        profile: PeerProfile,
        endpoint: Endpoint,
        private_data: Vec<u8>,
    },
    Accepted {
        endpoint: Endpoint,
        private_data: Vec<u8>,
    },
    Rejected {
        reason: String,
    },
    Ready,
    Heartbeat,
    Goodbye {
        cause: EndCause,
    },
}

impl Welcome {
    pub fn encode(&self) -> Vec<u8> {
        let milliseconds =
            |duration: Duration| U32::new(u32::try_from(duration.as_millis()).unwrap_or(u32::MAX));
        let bytes = WelcomeBytes {
            run: U64::new(self.run),
            ticket: self.ticket,
            ticket_lifetime_ms: milliseconds(self.terms.ticket_lifetime),
            lease_ms: milliseconds(self.terms.duration),
            connections_max: U32::new(self.terms.connections_max),
            send_capacity_max: U32::new(self.terms.send_capacity_max),
            reads_max: self.terms.reads_max,
            reserved: [0; 7],
            profile: ProfileBytes::from(&self.profile),
        };
        bytes.as_bytes().to_vec()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, ControlError> {
        let found = WelcomeBytes::read_from_bytes(bytes)
            .map_err(|_| malformed("a welcome of another length"))?;
        if found.reserved != [0; 7] {
            return Err(malformed("a welcome with unknown bits"));
        }
        if found.lease_ms.get() == 0 {
            return Err(malformed("a lease of zero length"));
        }
        Ok(Self {
            run: found.run.get(),
            ticket: found.ticket,
            terms: LeaseTerms {
                duration: Duration::from_millis(found.lease_ms.get().into()),
                ticket_lifetime: Duration::from_millis(found.ticket_lifetime_ms.get().into()),
                connections_max: found.connections_max.get(),
                send_capacity_max: found.send_capacity_max.get(),
                reads_max: found.reads_max,
            },
            profile: PeerProfile::try_from(&found.profile)?,
        })
    }
}

impl Message {
    /// The name of the message, for messages about it.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Connect { .. } => "a connect",
            Message::Accepted { .. } => "an acceptance",
            Message::Rejected { .. } => "a rejection",
            Message::Ready => "a ready",
            Message::Heartbeat => "a heartbeat",
            Message::Goodbye { .. } => "a goodbye",
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        match self {
            Message::Connect {
                ticket,
                run,
                profile,
                endpoint,
                private_data,
            } => {
                let head = ConnectBytes {
                    ticket: *ticket,
                    run: U64::new(*run),
                    profile: profile.into(),
                    endpoint: endpoint.into(),
                };
                [&[CONNECT], head.as_bytes(), private_data].concat()
            }
            Message::Accepted {
                endpoint,
                private_data,
            } => [
                &[ACCEPTED],
                EndpointBytes::from(endpoint).as_bytes(),
                private_data,
            ]
            .concat(),
            Message::Rejected { reason } => {
                let end = (0..=reason.len().min(REASON_SIZE_MAX))
                    .rev()
                    .find(|&end| reason.is_char_boundary(end))
                    .unwrap_or(0);
                [&[REJECTED], &reason.as_bytes()[..end]].concat()
            }
            Message::Ready => vec![READY],
            Message::Heartbeat => vec![HEARTBEAT],
            Message::Goodbye { cause } => {
                vec![GOODBYE, u8::from(*cause == EndCause::QueuePairError)]
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, ControlError> {
        let (&kind, rest) = bytes.split_first().ok_or(malformed("an empty message"))?;
        match (kind, rest) {
            (CONNECT, _) => {
                let (head, data) = ConnectBytes::read_from_prefix(rest)
                    .map_err(|_| malformed("a connect that is cut off"))?;
                Ok(Message::Connect {
                    ticket: head.ticket,
                    run: head.run.get(),
                    profile: PeerProfile::try_from(&head.profile)?,
                    endpoint: Endpoint::try_from(&head.endpoint)?,
                    private_data: private(data)?,
                })
            }
            (ACCEPTED, _) => {
                let (head, data) = EndpointBytes::read_from_prefix(rest)
                    .map_err(|_| malformed("an acceptance that is cut off"))?;
                Ok(Message::Accepted {
                    endpoint: Endpoint::try_from(&head)?,
                    private_data: private(data)?,
                })
            }
            (REJECTED, _) if rest.len() <= REASON_SIZE_MAX => {
                let clean = |letter: char| if letter.is_control() { ' ' } else { letter };
                Ok(Message::Rejected {
                    reason: String::from_utf8_lossy(rest).chars().map(clean).collect(),
                })
            }
            (READY, []) => Ok(Message::Ready),
            (HEARTBEAT, []) => Ok(Message::Heartbeat),
            (GOODBYE, [0]) => Ok(Message::Goodbye {
                cause: EndCause::Requested,
            }),
            (GOODBYE, [1]) => Ok(Message::Goodbye {
                cause: EndCause::QueuePairError,
            }),
            _ => Err(malformed(
                "it does not belong to the protocol, or has another length",
            )),
        }
    }
}

fn malformed(reason: &'static str) -> ControlError {
    ControlError::Malformed { reason }
}

fn private(data: &[u8]) -> Result<Vec<u8>, ControlError> {
    if data.len() > PRIVATE_DATA_SIZE_MAX {
        Err(malformed("too much private data"))
    } else {
        Ok(data.to_vec())
    }
}

impl From<&Endpoint> for EndpointBytes {
    fn from(endpoint: &Endpoint) -> Self {
        Self {
            queue_pair: U32::new(endpoint.queue_pair),
            first_packet: U32::new(endpoint.first_packet),
            gid: endpoint.gid.0,
            lid: U16::new(endpoint.lid),
            mtu: endpoint.mtu,
            reads_in: endpoint.reads_in,
            reads_out: endpoint.reads_out,
            reserved: [0; 3],
            send_capacity: U32::new(endpoint.send_capacity),
            rnr_retry_count: U32::new(endpoint.rnr_retry_count),
            rnr_retry_delay_ns: U64::new(endpoint.rnr_retry_delay_ns),
        }
    }
}

impl TryFrom<&EndpointBytes> for Endpoint {
    type Error = ControlError;

    fn try_from(bytes: &EndpointBytes) -> Result<Self, ControlError> {
        let wrong = [
            (
                bytes.queue_pair.get() >= 1 << 24,
                "a queue pair number of more than 24 bits",
            ),
            (
                bytes.first_packet.get() >= 1 << 24,
                "a packet number of more than 24 bits",
            ),
            (!(1..=5).contains(&bytes.mtu), "an unknown MTU"),
            // A responder without resources for READs makes some kernels crash on a FLUSH.
            (
                bytes.reads_in == 0 || bytes.reads_out == 0,
                "no resources for READs",
            ),
            (bytes.reserved != [0; 3], "an endpoint with unknown bits"),
        ];
        if let Some((_, reason)) = wrong.into_iter().find(|(wrong, _)| *wrong) {
            return Err(malformed(reason));
        }
        Ok(Self {
            queue_pair: bytes.queue_pair.get(),
            first_packet: bytes.first_packet.get(),
            lid: bytes.lid.get(),
            gid: Gid(bytes.gid),
            mtu: bytes.mtu,
            reads_in: bytes.reads_in,
            reads_out: bytes.reads_out,
            send_capacity: bytes.send_capacity.get(),
            rnr_retry_count: bytes.rnr_retry_count.get(),
            rnr_retry_delay_ns: bytes.rnr_retry_delay_ns.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng as _;
    use stonecast_base::random_from_seed;
    use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

    use super::*;
    use crate::path::Transport;

    fn endpoint() -> Endpoint {
        Endpoint {
            queue_pair: 17,
            first_packet: 0xff_ffff,
            lid: 3,
            gid: Gid([7; 16]),
            mtu: 5,
            reads_in: 16,
            reads_out: 1,
            send_capacity: 64,
            rnr_retry_count: 100,
            rnr_retry_delay_ns: 1_000_000,
        }
    }

    fn profile() -> PeerProfile {
        PeerProfile {
            platform: DeclaredPlatform {
                persistence_domain: PersistenceDomain::Dmp,
                ddio: Ddio::On,
                receive_buffers: ReceiveBuffers::Dram,
            },
            transport: Transport::Roce,
            flush_global: true,
            flush_persistent: false,
            atomic_write: true,
        }
    }

    fn messages() -> Vec<Message> {
        vec![
            Message::Connect {
                ticket: [3; TICKET_SIZE],
                run: u64::MAX,
                profile: profile(),
                endpoint: endpoint(),
                private_data: vec![1; PRIVATE_DATA_SIZE_MAX],
            },
            Message::Accepted {
                endpoint: endpoint(),
                private_data: Vec::new(),
            },
            Message::Rejected {
                reason: "the house is full".into(),
            },
            Message::Ready,
            Message::Heartbeat,
            Message::Goodbye {
                cause: EndCause::Requested,
            },
            Message::Goodbye {
                cause: EndCause::QueuePairError,
            },
        ]
    }

    #[test]
    fn every_message_survives_the_wire() {
        for message in messages() {
            let bytes = message.encode();
            assert!(bytes.len() <= MESSAGE_SIZE_MAX, "{}", message.name());
            assert_eq!(
                Message::decode(&bytes).expect("the message is sound"),
                message
            );
        }
        let welcome = Welcome {
            run: 5,
            ticket: [1; TICKET_SIZE],
            terms: LeaseTerms::default(),
            profile: profile(),
        };
        assert_eq!(
            Welcome::decode(&welcome.encode()).expect("the welcome is sound"),
            welcome
        );
    }

    #[test]
    fn a_reason_is_truncated_at_a_letter_and_carries_no_control_characters() {
        let long = "ö".repeat(400);
        let Ok(Message::Rejected { reason }) = Message::decode(
            &Message::Rejected {
                reason: long.clone(),
            }
            .encode(),
        ) else {
            panic!("a rejection stays a rejection");
        };
        assert!(long.starts_with(&reason) && reason.len() <= REASON_SIZE_MAX);
        let Ok(Message::Rejected { reason }) = Message::decode(b"\x03a\x1b[31m\n") else {
            panic!("the message is a rejection")
        };
        assert_eq!(reason, "a [31m ");
    }

    #[test]
    fn an_endpoint_without_resources_for_reads_is_refused() {
        for wrong in [
            Endpoint {
                reads_in: 0,
                ..endpoint()
            },
            Endpoint {
                reads_out: 0,
                ..endpoint()
            },
            Endpoint {
                mtu: 6,
                ..endpoint()
            },
        ] {
            let bytes = Message::Accepted {
                endpoint: wrong,
                private_data: Vec::new(),
            }
            .encode();
            assert!(
                matches!(Message::decode(&bytes), Err(ControlError::Malformed { .. })),
                "{wrong:?}"
            );
        }
    }

    /// No bytes cause a panic or yield an unchecked value: a decoded message encodes to the same bytes again.
    #[test]
    fn damaged_messages_are_refused_or_decode_exactly() {
        let mut random = random_from_seed(7);
        for round in 0..200_000u32 {
            let mut bytes = messages()[(round % 7) as usize].encode();
            for _ in 0..1 + round % 3 {
                let draw = random.next_u64();
                let index = draw as usize % bytes.len();
                bytes[index] ^= (draw >> 56) as u8;
            }
            bytes.truncate(bytes.len() - (round as usize / 7) % 3 % bytes.len());
            if let Ok(message) = Message::decode(&bytes)
                && !matches!(message, Message::Rejected { .. })
            {
                assert_eq!(message.encode(), bytes);
            }
        }
    }
}
