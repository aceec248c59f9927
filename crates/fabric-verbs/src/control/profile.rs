//! The platform that each side declares, for the planning of durable writes to it.

use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ControlError;
use crate::path::Transport;

/// The platform of a peer, as the peer declares it. No part of it can be detected from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProfile {
    /// The operator's declaration.
    pub platform: DeclaredPlatform,
    /// The transport of the packets.
    pub transport: Transport,
    /// Whether the device executes FLUSH with global visibility.
    pub flush_global: bool,
    /// Whether the device executes FLUSH with persistence.
    pub flush_persistent: bool,
    /// Whether the device executes ATOMIC_WRITE.
    pub atomic_write: bool,
}

/// The profile on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct ProfileBytes {
    pub persistence_domain: u8,
    pub ddio: u8,
    pub receive_buffers: u8,
    pub transport: u8,
    /// Bit 0: FLUSH with global visibility; 1: with persistence; 2: ATOMIC_WRITE.
    pub operations: u8,
    pub reserved: [u8; 3],
}

const FLUSH_GLOBAL: u8 = 1;
const FLUSH_PERSISTENT: u8 = 2;
const ATOMIC_WRITE: u8 = 4;
const TRANSPORTS: [Transport; 2] = [Transport::InfiniBand, Transport::Roce];

fn code_of<T: PartialEq>(choices: &[T], choice: &T) -> u8 {
    choices
        .iter()
        .position(|known| known == choice)
        .expect("every choice is in the table") as u8
}

impl From<&PeerProfile> for ProfileBytes {
    fn from(profile: &PeerProfile) -> Self {
        let bits = [
            (profile.flush_global, FLUSH_GLOBAL),
            (profile.flush_persistent, FLUSH_PERSISTENT),
            (profile.atomic_write, ATOMIC_WRITE),
        ];
        Self {
            persistence_domain: code_of(
                PersistenceDomain::ALL,
                &profile.platform.persistence_domain,
            ),
            ddio: code_of(Ddio::ALL, &profile.platform.ddio),
            receive_buffers: code_of(ReceiveBuffers::ALL, &profile.platform.receive_buffers),
            transport: code_of(&TRANSPORTS, &profile.transport),
            operations: bits
                .iter()
                .filter(|(set, _)| *set)
                .fold(0, |bits, (_, bit)| bits | bit),
            reserved: [0; 3],
        }
    }
}

impl TryFrom<&ProfileBytes> for PeerProfile {
    type Error = ControlError;

    fn try_from(bytes: &ProfileBytes) -> Result<Self, ControlError> {
        fn choice<T: Copy>(choices: &[T], code: u8) -> Result<T, ControlError> {
            choices
                .get(usize::from(code))
                .copied()
                .ok_or(ControlError::Malformed {
                    reason: "an unknown platform",
                })
        }
        if bytes.operations & !(FLUSH_GLOBAL | FLUSH_PERSISTENT | ATOMIC_WRITE) != 0
            || bytes.reserved != [0; 3]
        {
            return Err(ControlError::Malformed {
                reason: "a profile with unknown bits",
            });
        }
        Ok(Self {
            platform: DeclaredPlatform {
                persistence_domain: choice(PersistenceDomain::ALL, bytes.persistence_domain)?,
                ddio: choice(Ddio::ALL, bytes.ddio)?,
                receive_buffers: choice(ReceiveBuffers::ALL, bytes.receive_buffers)?,
            },
            transport: choice(&TRANSPORTS, bytes.transport)?,
            flush_global: bytes.operations & FLUSH_GLOBAL != 0,
            flush_persistent: bytes.operations & FLUSH_PERSISTENT != 0,
            atomic_write: bytes.operations & ATOMIC_WRITE != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_survives_the_wire_and_unknown_ones_are_refused() {
        for &persistence_domain in PersistenceDomain::ALL {
            for bits in 0..8u8 {
                let profile = PeerProfile {
                    platform: DeclaredPlatform {
                        persistence_domain,
                        ddio: Ddio::Off,
                        receive_buffers: ReceiveBuffers::Pm,
                    },
                    transport: TRANSPORTS[usize::from(bits % 2)],
                    flush_global: bits & 1 != 0,
                    flush_persistent: bits & 2 != 0,
                    atomic_write: bits & 4 != 0,
                };
                let bytes = ProfileBytes::from(&profile);
                assert_eq!(
                    PeerProfile::try_from(&bytes).expect("the profile is sound"),
                    profile
                );
                for damaged in [
                    ProfileBytes {
                        persistence_domain: 9,
                        ..bytes
                    },
                    ProfileBytes {
                        transport: 9,
                        ..bytes
                    },
                    ProfileBytes {
                        operations: 8,
                        ..bytes
                    },
                    ProfileBytes {
                        reserved: [0, 1, 0],
                        ..bytes
                    },
                ] {
                    assert!(PeerProfile::try_from(&damaged).is_err());
                }
            }
        }
    }
}
