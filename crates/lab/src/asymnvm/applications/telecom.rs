//! TATP: subscribers, what they may access, their facilities, and where these forward calls to. The mix is that of the
//! benchmark: 80 % of the transactions read alone.

use rand::RngExt as _;
use stonecast_base::Random;

use super::{Next, Row, RowPlace, at};

/// Subscribers, numbers, access infos, special facilities, call forwardings.
pub(super) const ROW_SIZES: [u32; 5] = [32, 8, 16, 16, 24];
const SUBSCRIBERS: usize = 0;
const NUMBERS: usize = 1;
const ACCESS: usize = 2;
const FACILITIES: usize = 3;
const FORWARDINGS: usize = 4;
/// Access infos and facilities of a subscriber, at most.
const TYPES: u64 = 4;
/// Hours at which a forwarding may begin: 0, 8 and 16.
const STARTS: u64 = 3;
/// Bytes from the start of a subscriber's row to its bits, and to its location.
const BITS: usize = 0;
const LOCATION: usize = 24;

/// A transaction of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelecomTransaction {
    /// Reads a subscriber.
    Subscriber { id: u64 },
    /// Reads where a facility forwards calls to.
    Destination { id: u64, kind: u64 },
    /// Reads an access info.
    Access { id: u64, kind: u64 },
    /// Changes a bit of a subscriber and a byte of a facility.
    Update { id: u64, kind: u64, data: u8 },
    /// Changes the location of the subscriber with a number.
    Move { number: u64, location: u32 },
    /// Adds a forwarding, if the facility is there and the forwarding is not.
    Forward {
        number: u64,
        kind: u64,
        start: u64,
        to: u64,
    },
    /// Ends a forwarding.
    End { number: u64, kind: u64, start: u64 },
}

const fn of_kind(table: usize, id: u64, kind: u64) -> RowPlace {
    at(table, id * TYPES + kind)
}

const fn forwarding(id: u64, kind: u64, start: u64) -> RowPlace {
    at(FORWARDINGS, (id * TYPES + kind) * 4 + start)
}

/// The number of a subscriber: an index finds the subscriber by it.
const fn number_of(id: u64) -> RowPlace {
    at(NUMBERS, id.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn filled(size: usize, seed: u64) -> Vec<u8> {
    let byte = |at: usize| (seed.wrapping_mul(31).wrapping_add(at as u64 * 7)) as u8;
    (0..size).map(byte).collect()
}

/// Every subscriber has one to four access infos and facilities, and forwardings of each of their facilities by turns.
pub(super) fn rows(population: u64) -> Vec<(RowPlace, Row)> {
    let mut rows = Vec::new();
    for id in 0..population {
        rows.push((at(SUBSCRIBERS, id), Some(filled(32, id))));
        rows.push((number_of(id), Some(id.to_le_bytes().to_vec())));
        for kind in 0..=id % TYPES {
            rows.push((of_kind(ACCESS, id, kind), Some(filled(16, kind))));
            rows.push((of_kind(FACILITIES, id, kind), Some(filled(16, kind))));
            for start in 0..(id + kind) % (STARTS + 1) {
                rows.push((forwarding(id, kind, start), Some(filled(24, start))));
            }
        }
    }
    rows
}

/// All places at which a row may be.
pub(super) fn places(population: u64) -> Vec<RowPlace> {
    let mut places = Vec::new();
    for id in 0..population {
        places.extend([at(SUBSCRIBERS, id), number_of(id)]);
        for kind in 0..TYPES {
            places.extend([of_kind(ACCESS, id, kind), of_kind(FACILITIES, id, kind)]);
            places.extend((0..STARTS).map(|start| forwarding(id, kind, start)));
        }
    }
    places
}

/// Whether no forwarding is one of a facility that is not there.
pub(super) fn is_consistent(population: u64, has_row: impl Fn(RowPlace) -> bool) -> bool {
    let mut of_each = (0..population).flat_map(|id| (0..TYPES).map(move |kind| (id, kind)));
    of_each.all(|(id, kind)| {
        let mut starts = 0..STARTS;
        let forwards = starts.any(|start| has_row(forwarding(id, kind, start)));
        !forwards || has_row(of_kind(FACILITIES, id, kind))
    })
}

/// The subscriber that a row of the index names.
fn id_in(row: &Row) -> Option<u64> {
    let bytes = row.as_ref()?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

impl TelecomTransaction {
    pub fn draw(population: u64, random: &mut Random) -> Self {
        let id = random.random_range(0..population);
        let number = number_of(id).key;
        let kind = random.random_range(0..TYPES);
        let start = random.random_range(0..STARTS);
        match random.random_range(0..100) {
            0..35 => Self::Subscriber { id },
            35..45 => Self::Destination { id, kind },
            45..80 => Self::Access { id, kind },
            80..82 => Self::Update {
                id,
                kind,
                data: random.random_range(0..=u8::MAX),
            },
            82..96 => Self::Move {
                number,
                location: random.random_range(0..=u32::MAX),
            },
            96..98 => Self::Forward {
                number,
                kind,
                start,
                to: random.random_range(0..population),
            },
            _ => Self::End {
                number,
                kind,
                start,
            },
        }
    }

    fn first(self) -> Vec<RowPlace> {
        match self {
            Self::Subscriber { id } => vec![at(SUBSCRIBERS, id)],
            Self::Destination { id, kind } => {
                let starts = (0..STARTS).map(|start| forwarding(id, kind, start));
                [of_kind(FACILITIES, id, kind)]
                    .into_iter()
                    .chain(starts)
                    .collect()
            }
            Self::Access { id, kind } => vec![of_kind(ACCESS, id, kind)],
            Self::Update { id, kind, .. } => {
                vec![at(SUBSCRIBERS, id), of_kind(FACILITIES, id, kind)]
            }
            Self::Move { number, .. } | Self::Forward { number, .. } | Self::End { number, .. } => {
                vec![at(NUMBERS, number)]
            }
        }
    }

    /// Reads the rows that the program names, and then those that the index names.
    pub fn next(self, seen: &[Row]) -> Next {
        let Some(first) = seen.first() else {
            return Next::Read(self.first());
        };
        let nothing = Next::End(Vec::new());
        match self {
            Self::Subscriber { .. } | Self::Destination { .. } | Self::Access { .. } => nothing,
            Self::Update { id, kind, data } => {
                // A subscriber without this facility stays as it was, as the benchmark has it.
                let (Some(mut subscriber), Some(mut facility)) = (first.clone(), seen[1].clone())
                else {
                    return nothing;
                };
                (subscriber[BITS], facility[1]) = (data, data);
                Next::End(vec![
                    (at(SUBSCRIBERS, id), Some(subscriber)),
                    (of_kind(FACILITIES, id, kind), Some(facility)),
                ])
            }
            Self::Move { location, .. } => {
                let Some(id) = id_in(first) else {
                    return nothing;
                };
                let Some(row) = seen.get(1) else {
                    return Next::Read(vec![at(SUBSCRIBERS, id)]);
                };
                let Some(mut subscriber) = row.clone() else {
                    return nothing;
                };
                subscriber[LOCATION..LOCATION + 4].copy_from_slice(&location.to_le_bytes());
                Next::End(vec![(at(SUBSCRIBERS, id), Some(subscriber))])
            }
            Self::Forward {
                kind, start, to, ..
            } => {
                let Some(id) = id_in(first) else {
                    return nothing;
                };
                let place = forwarding(id, kind, start);
                match &seen[1..] {
                    [] => Next::Read(vec![of_kind(FACILITIES, id, kind), place]),
                    [Some(_), None, ..] => Next::End(vec![(place, Some(filled(24, to)))]),
                    _ => nothing,
                }
            }
            Self::End { kind, start, .. } => {
                let Some(id) = id_in(first) else {
                    return nothing;
                };
                let place = forwarding(id, kind, start);
                match &seen[1..] {
                    [] => Next::Read(vec![place]),
                    [Some(_), ..] => Next::End(vec![(place, None)]),
                    _ => nothing,
                }
            }
        }
    }
}
