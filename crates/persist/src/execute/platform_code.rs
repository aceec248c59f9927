//! A platform as the 32 bits that both sides of a connection exchange.
//!
//! ```text
//!   0-2 persistence   3 ddio   4 receive buffers   5 transport   6-7 flush   8 ATOMIC_WRITE   9 relaxed ordering
//!   10 trusted NIC buffers   31 always 1        0: no platform, as a rehearsal, whose steps promise nothing
//! ```
//!
//! An axis is the index of its word in the list of all words. The bits are part of the version of the protocol.

use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};
use stonecast_session::PlatformCode;

use crate::platform::{FlushKind, Platform, Transport};

const DECLARED: u32 = 1 << 31;

/// The code of `platform`; `None` for a rehearsal.
pub(crate) fn platform_code(platform: Option<&Platform>) -> PlatformCode {
    PlatformCode {
        code: platform.map_or(0, encode),
        words,
    }
}

fn encode(platform: &Platform) -> u32 {
    let bit = |is_set: bool, place: u32| u32::from(is_set) << place;
    DECLARED
        | index(PersistenceDomain::ALL, platform.persistence)
        | index(Ddio::ALL, platform.ddio) << 3
        | index(ReceiveBuffers::ALL, platform.receive_buffers) << 4
        | index(Transport::ALL, platform.transport) << 5
        | index(FlushKind::ALL, platform.flush) << 6
        | bit(platform.atomic_write, 8)
        | bit(platform.relaxed_ordering, 9)
        | bit(platform.trusted_nic_buffers, 10)
}

/// The platform of a code; `None` if no platform has it.
pub(crate) fn decode(code: u32) -> Option<Platform> {
    let bits = |place: u32, count: u32| code >> place & ((1 << count) - 1);
    let platform = Platform {
        persistence: choice(PersistenceDomain::ALL, bits(0, 3))?,
        ddio: choice(Ddio::ALL, bits(3, 1))?,
        receive_buffers: choice(ReceiveBuffers::ALL, bits(4, 1))?,
        transport: choice(Transport::ALL, bits(5, 1))?,
        flush: choice(FlushKind::ALL, bits(6, 2))?,
        atomic_write: bits(8, 1) == 1,
        relaxed_ordering: bits(9, 1) == 1,
        trusted_nic_buffers: bits(10, 1) == 1,
    };
    (encode(&platform) == code).then_some(platform)
}

/// The meaning of any code, even of one that no platform has.
pub(crate) fn words(code: u32) -> String {
    if code == 0 {
        return "none (a rehearsal)".to_owned();
    }
    let Some(platform) = decode(code) else {
        return format!("unknown ({code:#x})");
    };
    let Platform {
        persistence,
        ddio,
        receive_buffers,
        transport,
        flush,
        atomic_write,
        relaxed_ordering,
        trusted_nic_buffers,
    } = platform;
    format!(
        "persistence {persistence}, ddio {ddio}, receive_buffers {receive_buffers}, transport {transport}, flush {flush}, \
         atomic_write {atomic_write}, relaxed_ordering {relaxed_ordering}, trusted_nic_buffers {trusted_nic_buffers}"
    )
}

fn index<T: PartialEq>(all: &[T], choice: T) -> u32 {
    let index = all.iter().position(|known| *known == choice);
    index.expect("all choices are listed") as u32
}

fn choice<T: Copy>(all: &[T], index: u32) -> Option<T> {
    all.get(index as usize).copied()
}

#[cfg(test)]
mod tests {
    use stonecast_media::DeclaredPlatform;

    use super::*;

    #[test]
    fn every_platform_has_a_code_of_its_own_that_is_read_back() {
        let mut codes = std::collections::BTreeSet::new();
        for &persistence_domain in PersistenceDomain::ALL {
            for &ddio in Ddio::ALL {
                for &receive_buffers in ReceiveBuffers::ALL {
                    let declared = DeclaredPlatform {
                        persistence_domain,
                        ddio,
                        receive_buffers,
                    };
                    for (&transport, &flush) in Transport::ALL.iter().flat_map(|transport| {
                        FlushKind::ALL.iter().map(move |flush| (transport, flush))
                    }) {
                        for flags in 0..8 {
                            let platform = Platform {
                                transport,
                                flush,
                                atomic_write: flags & 1 != 0,
                                relaxed_ordering: flags & 2 != 0,
                                trusted_nic_buffers: flags & 4 != 0,
                                ..Platform::of(declared)
                            };
                            let code = platform_code(Some(&platform)).code;
                            assert_eq!(decode(code), Some(platform));
                            assert!(codes.insert(code), "{code:#x} is another platform's");
                        }
                    }
                }
            }
        }
        assert!(!codes.contains(&0));
    }

    #[test]
    fn an_unknown_code_is_shown_as_unknown_and_not_guessed() {
        assert_eq!(words(0), "none (a rehearsal)");
        for unknown in [1, 7, DECLARED | 7, DECLARED | 1 << 12, u32::MAX] {
            assert_eq!(words(unknown), format!("unknown ({unknown:#x})"));
        }
    }
}
