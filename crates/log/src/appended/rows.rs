//! The rows of a ledger.

use stonecast_base::mutant;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::floors::{Floors, Row};
use crate::own::{VersionRow, Versions};

const FLOOR: u32 = 1;
const CUT: u32 = 2;
const SETTLED: u32 = 3;
const SKIPPED: u32 = 4;
const LED: u32 = 5;
const VOID: u32 = 6;

/// Bytes of a row.
pub(super) const ROW_SIZE: usize = size_of::<RowBytes>();

/// A row: what is said of one shard, or of the records that this node stamped.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RowBytes {
    shard: U32,
    /// 1: floor, the term is the last closed one; 2: cut; 3: settled; 4: skipped, from the version in the place of the term; 5: led,
    /// behind the version; 6: void, from the version in the place of the term.
    what: U32,
    term: U64,
    version: U64,
}

impl RowBytes {
    fn new(shard: u32, what: u32, term: u64, version: u64) -> Self {
        Self {
            shard: shard.into(),
            what: what.into(),
            term: term.into(),
            version: version.into(),
        }
    }

    fn of_floor(shard: u32, row: Row) -> Self {
        match row {
            Row::Floor { version, closed } => Self::new(shard, FLOOR, closed, version),
            Row::Cut { term, version } => Self::new(shard, CUT, term, version),
        }
    }

    fn of_versions(row: VersionRow) -> Self {
        match row {
            VersionRow::Settled { version } => Self::new(0, SETTLED, 0, version),
            VersionRow::Skipped { first, last } => Self::new(0, SKIPPED, first, last),
            VersionRow::Led { shard, term, given } => Self::new(shard, LED, term, given),
            VersionRow::Void { shard, first, last } => Self::new(shard, VOID, first, last),
        }
    }
}

/// The facts in the rows of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub floors: Floors,
    pub versions: Versions,
}

impl Told {
    /// All rows.
    pub fn encode(&self) -> Vec<RowBytes> {
        let floors = self.floors.rows();
        let floors =
            floors.filter(|(_, row)| !(matches!(row, Row::Cut { .. }) && mutant!(CutNotWritten)));
        let floors = floors.map(|(shard, row)| RowBytes::of_floor(shard, row));
        let versions = self.versions.rows().map(RowBytes::of_versions);
        floors.chain(versions).collect()
    }

    /// The facts of whole rows; `None`: this program does not know one of the rows.
    pub fn decode(rows: &[u8]) -> Option<Self> {
        let mut told = Self::default();
        for row in <[RowBytes]>::ref_from_bytes(rows).ok()? {
            told.take(row)?;
        }
        Some(told)
    }

    /// Takes a row; `None`: it is none that this program knows.
    fn take(&mut self, row: &RowBytes) -> Option<()> {
        let (shard, term, version) = (row.shard.get(), row.term.get(), row.version.get());
        let (first, last) = (term, version);
        match row.what.get() {
            FLOOR => self.floors.take_row(
                shard,
                Row::Floor {
                    version,
                    closed: term,
                },
            ),
            CUT => self.floors.take_row(shard, Row::Cut { term, version }),
            SETTLED => self.versions.take_row(VersionRow::Settled { version }),
            SKIPPED => self.versions.take_row(VersionRow::Skipped { first, last }),
            LED => self.versions.take_row(VersionRow::Led {
                shard,
                term,
                given: version,
            }),
            VOID => self
                .versions
                .take_row(VersionRow::Void { shard, first, last }),
            _ => return None,
        }
        Some(())
    }
}
