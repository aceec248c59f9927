//! Letters: the messages between nodes about the history of a shard.
//!
//! ```text
//!   0 kind u32    4 shard u32    8 term u64    16 ...
//!   1 history     16 connection u64    24 join u64    32 nonce u128    48 floor: term u64, version u64    64 cuts: term u64, version u64 each, to the end
//!   2 followed    16 connection u64    24 join u64    32 has: term u64, version u64
//!   3 confirmed
//!   4 drop        like a history
//!   5 ask         16 join u64    24 page u64    32 offset u64
//!   6 piece       16 join u64    24 page u64    32 offset u64    40 size u64    48 last u64: 0 or 1    56 bytes of the page, to the end
//!   7 pulled      16 join u64
//!   8 consent     16 last: term u64, version u64
//!
//!   9             the end is at 4: no letter, but the arrival wakes a node at rest whose device reports no entries
//! ```
//!
//! Numbers are little-endian. A letter may get lost, or come late or twice. Each letter names its term, and its sender
//! repeats it until an answer comes.

use std::collections::BTreeMap;

use stonecast_cluster::{Epoch, Nonce, Term};
use stonecast_replication::{Lineage, Point};

/// The bytes that wake a node at rest, which are no letter.
pub const WAKE: [u8; 4] = 9_u32.to_le_bytes();
/// Longest letter, bytes.
pub const LETTER_SIZE: u32 = 16 * 1024;
/// Most bytes of a page that a letter holds.
pub const PIECE_SIZE_MAX: usize = LETTER_SIZE as usize - 56;
/// Most cuts of a history that a letter holds.
const CUTS_MAX: usize = (LETTER_SIZE as usize - 64) / 16;

/// A letter about a shard in a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub shard: u32,
    pub term: Term,
    pub says: Says,
}

/// The content of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// To a copy, from the heir or the primary of the term: its history. Entries come by the connection of that number,
    /// in streams of the copy's join.
    History {
        connection: u64,
        join: u64,
        lineage: Lineage,
    },
    /// From a copy: the streams of that join for the entries of that connection are open, and everything up to `has` is
    /// here.
    Followed {
        connection: u64,
        join: u64,
        has: Point,
    },
    /// From a copy: all of the history is durable here.
    Confirmed,
    /// To a joiner, from the primary: the history with which its join begins. A joiner that follows has dropped its
    /// earlier copy.
    Drop {
        connection: u64,
        join: u64,
        lineage: Lineage,
    },
    /// From a joiner: the joiner has all earlier pages, and all bytes of this page before `offset`.
    Ask { join: u64, page: u64, offset: u64 },
    /// To a joiner: a part of a page.
    Piece(Piece),
    /// From a joiner: everything that was published is durable here.
    Pulled { join: u64 },
    /// From the primary before the term: this primary has ended with everything up to `last` settled, and the next
    /// change has named the primary of the term.
    Consent { last: Point },
}

/// A part of a page of the published records of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub join: u64,
    /// The number of the page in its join, from 0 on.
    pub page: u64,
    /// Bytes of the page before this part.
    pub offset: u64,
    /// Bytes of the whole page.
    pub size: u64,
    /// Whether no page follows.
    pub is_last: bool,
    pub bytes: Vec<u8>,
}

/// Bytes that are no letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {size} bytes that are no letter of this version")]
pub struct NotALetter {
    /// The number of bytes.
    pub size: usize,
}

/// The history has more cuts than a letter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a history of {cuts} cuts, and a letter holds {CUTS_MAX}")]
pub struct TooManyCuts {
    /// Cuts of the history.
    pub cuts: usize,
}

impl Letter {
    /// The bytes of the letter.
    pub fn encode(&self) -> Result<Vec<u8>, TooManyCuts> {
        let kind: u32 = match self.says {
            Says::History { .. } => 1,
            Says::Followed { .. } => 2,
            Says::Confirmed => 3,
            Says::Drop { .. } => 4,
            Says::Ask { .. } => 5,
            Says::Piece(_) => 6,
            Says::Pulled { .. } => 7,
            Says::Consent { .. } => 8,
        };
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(self.shard.to_le_bytes());
        bytes.extend(self.term.0.to_le_bytes());
        match &self.says {
            Says::History {
                connection,
                join,
                lineage,
            }
            | Says::Drop {
                connection,
                join,
                lineage,
            } => {
                let cuts = lineage.cuts.len();
                if cuts > CUTS_MAX {
                    return Err(TooManyCuts { cuts });
                }
                bytes.extend(connection.to_le_bytes());
                bytes.extend(join.to_le_bytes());
                bytes.extend(lineage.nonce.as_bytes());
                let cuts = lineage.cuts.iter();
                let cuts = cuts.map(|(&term, &version)| Point { term, version });
                for point in std::iter::once(lineage.floor).chain(cuts) {
                    write_point(&mut bytes, point);
                }
            }
            Says::Followed {
                connection,
                join,
                has,
            } => {
                write_longs(&mut bytes, &[*connection, *join]);
                write_point(&mut bytes, *has);
            }
            Says::Confirmed => {}
            Says::Consent { last } => write_point(&mut bytes, *last),
            Says::Ask { join, page, offset } => write_longs(&mut bytes, &[*join, *page, *offset]),
            Says::Piece(piece) => {
                let Piece {
                    join,
                    page,
                    offset,
                    size,
                    ..
                } = *piece;
                write_longs(
                    &mut bytes,
                    &[join, page, offset, size, piece.is_last.into()],
                );
                bytes.extend(&piece.bytes);
            }
            Says::Pulled { join } => write_longs(&mut bytes, &[*join]),
        }
        Ok(bytes)
    }

    /// Reads the letter that a peer sent.
    pub fn decode(bytes: &[u8]) -> Result<Self, NotALetter> {
        let size = bytes.len();
        read(bytes).ok_or(NotALetter { size })
    }
}

fn write_longs(bytes: &mut Vec<u8>, longs: &[u64]) {
    longs
        .iter()
        .for_each(|long| bytes.extend(long.to_le_bytes()));
}

fn write_point(bytes: &mut Vec<u8>, point: Point) {
    bytes.extend(point.term.0.to_le_bytes());
    bytes.extend(point.version.to_le_bytes());
}

fn read(mut bytes: &[u8]) -> Option<Letter> {
    let rest = &mut bytes;
    let (kind, shard, term) = (word(rest)?, word(rest)?, Epoch(long(rest)?));
    let says = match kind {
        1 => Says::History {
            connection: long(rest)?,
            join: long(rest)?,
            lineage: lineage(rest, term)?,
        },
        2 => Says::Followed {
            connection: long(rest)?,
            join: long(rest)?,
            has: point(rest)?,
        },
        3 => Says::Confirmed,
        4 => Says::Drop {
            connection: long(rest)?,
            join: long(rest)?,
            lineage: lineage(rest, term)?,
        },
        5 => Says::Ask {
            join: long(rest)?,
            page: long(rest)?,
            offset: long(rest)?,
        },
        6 => Says::Piece(Piece {
            join: long(rest)?,
            page: long(rest)?,
            offset: long(rest)?,
            size: long(rest)?,
            is_last: truth(rest)?,
            bytes: std::mem::take(rest).to_vec(),
        }),
        7 => Says::Pulled { join: long(rest)? },
        8 => Says::Consent { last: point(rest)? },
        _ => return None,
    };
    rest.is_empty().then_some(Letter { shard, term, says })
}

fn lineage(rest: &mut &[u8], term: Term) -> Option<Lineage> {
    let nonce = Nonce::from_bytes(array(rest)?);
    let floor = point(rest)?;
    let mut cuts = BTreeMap::new();
    while !rest.is_empty() {
        let Point { term, version } = point(rest)?;
        cuts.insert(term, version);
    }
    let is_possible = floor.term <= term && cuts.keys().all(|&closed| closed < term);
    is_possible.then_some(Lineage {
        nonce,
        term,
        floor,
        cuts,
    })
}

fn point(rest: &mut &[u8]) -> Option<Point> {
    let term = Epoch(long(rest)?);
    let version = long(rest)?;
    Some(Point { term, version })
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    array(rest).map(u32::from_le_bytes)
}

fn long(rest: &mut &[u8]) -> Option<u64> {
    array(rest).map(u64::from_le_bytes)
}

fn truth(rest: &mut &[u8]) -> Option<bool> {
    match long(rest)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> [Letter; 8] {
        let point = |term, version| Point {
            term: Epoch(term),
            version,
        };
        let lineage = Lineage {
            nonce: Nonce::from_u128(17),
            term: Epoch(9),
            floor: point(4, 40),
            cuts: BTreeMap::from([(Epoch(4), 50), (Epoch(7), 45)]),
        };
        let of = |says| Letter {
            shard: 3,
            term: Epoch(9),
            says,
        };
        let dropped = lineage.clone();
        let (connection, join) = (7, 5);
        [
            of(Says::History {
                connection,
                join,
                lineage,
            }),
            of(Says::Followed {
                connection,
                join,
                has: point(4, 44),
            }),
            of(Says::Confirmed),
            of(Says::Drop {
                connection,
                join,
                lineage: dropped,
            }),
            of(Says::Ask {
                join,
                page: 2,
                offset: 40,
            }),
            of(Says::Piece(Piece {
                join,
                page: 2,
                offset: 40,
                size: 47,
                is_last: true,
                bytes: b"records".to_vec(),
            })),
            of(Says::Pulled { join }),
            of(Says::Consent { last: point(8, 47) }),
        ]
    }

    #[test]
    fn a_letter_is_read_as_it_was_written_and_no_part_of_it_is_another_letter() {
        for letter in letters() {
            let bytes = letter.encode().unwrap();
            assert_eq!(Letter::decode(&bytes), Ok(letter.clone()));
            for size in 0..bytes.len() {
                let part = Letter::decode(&bytes[..size]);
                assert_ne!(part, Ok(letter.clone()), "{size} bytes");
            }
        }
    }

    /// Needs the comparison with the term: a cut of the open term would hide the heir's entries.
    #[test]
    fn a_history_with_a_cut_of_its_own_term_or_a_later_one_is_no_letter() {
        let [history, ..] = letters();
        let mut bytes = history.encode().unwrap();
        let last = bytes.len() - 16;
        bytes[last..last + 8].copy_from_slice(&9_u64.to_le_bytes());
        let size = bytes.len();
        assert_eq!(Letter::decode(&bytes), Err(NotALetter { size }));
    }

    #[test]
    fn a_history_of_more_cuts_than_a_letter_holds_is_refused() {
        let [mut history, ..] = letters();
        let Says::History { lineage, .. } = &mut history.says else {
            unreachable!("the first one is a history");
        };
        lineage.cuts = (0..CUTS_MAX as u64 + 1)
            .map(|term| (Epoch(term), 1))
            .collect();
        let cuts = lineage.cuts.len();
        assert_eq!(history.encode(), Err(TooManyCuts { cuts }));
    }
}
