//! Notices: everything that a backup tells a primary on a connection.
//!
//! ```text
//!   0 u64 connection    8 u64 credits granted so far    16 u32 rows    20 36 bytes terms, zero: none    56 u32 1: no room    60 u32 0
//!   64  rows:  u32 shard    u32 standing, 0: reached, 1: closed    u64 term    u64 join    u64 version, of a closed stream 0
//! ```
//!
//! Everything in a notice is a total or a fact that stays true, so the next notice may replace one that was never sent.
//! At most one notice is under way at any time.

use stonecast_cluster::Epoch;
use stonecast_persist::execute::RECEIVING_SIZE;

use crate::stream::{Standing, StreamName, Told};

/// The number of rows of the longest notice.
pub(crate) const ROWS_MAX: usize = 6;
const HEAD_SIZE: usize = 64;
const ROW_SIZE: usize = 32;
const TERMS_AT: usize = 20;
const NO_ROOM_AT: usize = TERMS_AT + RECEIVING_SIZE;
const REACHED: u32 = 0;
const CLOSED: u32 = 1;
/// Bytes of a notice.
pub(crate) const NOTICE_SIZE: usize = HEAD_SIZE + ROWS_MAX * ROW_SIZE;

/// A notice, as the module documentation lays out its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub connection: u64,
    pub granted: u64,
    /// The receiver's terms, in the first notice.
    pub terms: Option<[u8; RECEIVING_SIZE]>,
    /// Whether the store has no room for more records than those that are on their way.
    pub lacks_room: bool,
    pub told: Vec<Told>,
}

impl Notice {
    pub fn encode(&self) -> [u8; NOTICE_SIZE] {
        let mut bytes = [0; NOTICE_SIZE];
        bytes[..8].copy_from_slice(&self.connection.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.granted.to_le_bytes());
        bytes[16..TERMS_AT].copy_from_slice(&(self.told.len() as u32).to_le_bytes());
        if let Some(terms) = &self.terms {
            bytes[TERMS_AT..TERMS_AT + RECEIVING_SIZE].copy_from_slice(terms);
        }
        bytes[NO_ROOM_AT] = self.lacks_room.into();
        let rows = bytes[HEAD_SIZE..].chunks_exact_mut(ROW_SIZE);
        for (row, told) in rows.zip(&self.told) {
            let StreamName { shard, term, join } = told.stream;
            let (standing, version) = match told.standing {
                Standing::Reached(version) => (REACHED, version),
                Standing::Closed => (CLOSED, 0),
            };
            row[..4].copy_from_slice(&shard.to_le_bytes());
            row[4..8].copy_from_slice(&standing.to_le_bytes());
            row[8..16].copy_from_slice(&term.0.to_le_bytes());
            row[16..24].copy_from_slice(&join.to_le_bytes());
            row[24..].copy_from_slice(&version.to_le_bytes());
        }
        bytes
    }

    /// Reads a notice. `None`: no backup sends such bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; NOTICE_SIZE] = bytes.try_into().ok()?;
        let long = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("in bounds"));
        let short = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("in bounds"));
        let rows = short(16) as usize;
        let terms: [u8; RECEIVING_SIZE] = *bytes[TERMS_AT..].first_chunk().expect("in bounds");
        let row = |index: usize| {
            let at = HEAD_SIZE + index * ROW_SIZE;
            let standing = match (short(at + 4), long(at + 24)) {
                (REACHED, version) => Standing::Reached(version),
                (CLOSED, 0) => Standing::Closed,
                _ => return None,
            };
            let stream = StreamName {
                shard: short(at),
                term: Epoch(long(at + 8)),
                join: long(at + 16),
            };
            Some(Told { stream, standing })
        };
        if rows > ROWS_MAX {
            return None;
        }
        Some(Self {
            connection: long(0),
            granted: long(8),
            terms: (terms != [0; RECEIVING_SIZE]).then_some(terms),
            lacks_room: short(NO_ROOM_AT) != 0,
            told: (0..rows).map(row).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_back_and_one_with_too_many_rows_is_none() {
        let told = |shard| Told {
            stream: StreamName {
                shard,
                term: Epoch(9),
                join: 3,
            },
            standing: match shard {
                1 => Standing::Closed,
                _ => Standing::Reached(1 << 40),
            },
        };
        for terms in [None, Some([7; RECEIVING_SIZE])] {
            let notice = Notice {
                connection: 2,
                granted: 1 << 33,
                terms,
                lacks_room: terms.is_some(),
                told: (0..ROWS_MAX as u32).map(told).collect(),
            };
            let mut bytes = notice.encode();
            assert_eq!(Notice::parse(&bytes), Some(notice));
            assert_eq!(Notice::parse(&bytes[1..]), None);
            bytes[HEAD_SIZE + 4] = 2;
            assert_eq!(Notice::parse(&bytes), None, "no stream stands so");
            bytes[HEAD_SIZE + 4] = 0;
            bytes[16] = ROWS_MAX as u8 + 1;
            assert_eq!(Notice::parse(&bytes), None);
        }
    }
}
