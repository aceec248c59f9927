//! The rows of a ledger.

use stonecast_base::mutant;
use stonecast_lineage::{Epoch, Lineage, Nonce, Point};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::lineages::Lineages;
use crate::own::{VersionRow, Versions};

const CLUSTER: u32 = 1;
const TERM: u32 = 2;
const FLOOR: u32 = 3;
const CUT: u32 = 4;
const SETTLED: u32 = 5;
const SKIPPED: u32 = 6;
const LED: u32 = 7;
const VOID: u32 = 8;
const DROPPED: u32 = 9;

/// Bytes of a row.
pub(super) const ROW_SIZE: usize = size_of::<RowBytes>();

/// A row: a fact about one shard, or about the records that this node stamped. `docs/formats/append-log.md` has the
/// meaning of each number.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RowBytes {
    shard: U32,
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

    fn of_point(shard: u32, what: u32, point: Point) -> Self {
        Self::new(shard, what, point.term.0, point.version)
    }

    fn of_versions(row: VersionRow) -> Self {
        match row {
            VersionRow::Settled { version } => Self::new(0, SETTLED, 0, version),
            VersionRow::Skipped { first, last } => Self::new(0, SKIPPED, first, last),
            VersionRow::Led { shard, term, given } => Self::new(shard, LED, term.0, given),
            VersionRow::Void { shard, first, last } => Self::new(shard, VOID, first, last),
            VersionRow::Dropped { shard, version } => Self::new(shard, DROPPED, 0, version),
        }
    }
}

/// The facts in the rows of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub lineages: Lineages,
    pub versions: Versions,
}

impl Told {
    /// All rows. One row names the cluster for all histories of that cluster that follow.
    pub fn encode(&self) -> Vec<RowBytes> {
        let (mut rows, mut cluster) = (Vec::new(), Nonce::nil());
        for (shard, lineage) in self.lineages.iter() {
            if lineage.nonce != cluster {
                cluster = lineage.nonce;
                let (high, low) = cluster.as_u64_pair();
                rows.push(RowBytes::new(0, CLUSTER, high, low));
            }
            encode_lineage(shard, lineage, &mut rows);
        }
        rows.extend(self.versions.rows().map(RowBytes::of_versions));
        rows
    }

    /// The facts of whole rows; `None`: this program does not know one of the rows.
    pub fn decode(rows: &[u8]) -> Option<Self> {
        let rows = <[RowBytes]>::ref_from_bytes(rows).ok()?;
        let of_versions = rows.iter().position(|row| row.what.get() > CUT);
        let (of_lineages, of_versions) = rows.split_at(of_versions.unwrap_or(rows.len()));
        let mut told = Self {
            lineages: decode_lineages(of_lineages)?,
            versions: Versions::default(),
        };
        for row in of_versions {
            told.versions.take_row(version_row(row)?);
        }
        Some(told)
    }
}

fn encode_lineage(shard: u32, lineage: &Lineage, rows: &mut Vec<RowBytes>) {
    rows.push(RowBytes::new(shard, TERM, lineage.term.0, 0));
    if lineage.floor != Point::default() {
        rows.push(RowBytes::of_point(shard, FLOOR, lineage.floor));
    }
    if !mutant!(CutNotWritten) {
        let cuts = lineage.cuts.iter();
        rows.extend(cuts.map(|(term, &version)| RowBytes::new(shard, CUT, term.0, version)));
    }
}

/// The histories in `rows`; `None`: one of the rows has another kind, or its shard has no term.
fn decode_lineages(rows: &[RowBytes]) -> Option<Lineages> {
    let (mut lineages, mut cluster) = (Lineages::default(), Nonce::nil());
    let mut rows = rows.iter().peekable();
    while let Some(row) = rows.next() {
        let (shard, term) = (row.shard.get(), Epoch(row.term.get()));
        match row.what.get() {
            CLUSTER => cluster = Nonce::from_u64_pair(term.0, row.version.get()),
            TERM => {
                let mut lineage = Lineage {
                    term,
                    ..Lineage::new(cluster)
                };
                let is_more = |row: &&RowBytes| {
                    row.shard.get() == shard && [FLOOR, CUT].contains(&row.what.get())
                };
                while let Some(row) = rows.next_if(is_more) {
                    let (term, version) = (Epoch(row.term.get()), row.version.get());
                    match row.what.get() {
                        FLOOR => lineage.floor = Point { term, version },
                        _ => drop(lineage.cuts.insert(term, version)),
                    }
                }
                lineages.keep(shard, lineage);
            }
            _ => return None,
        }
    }
    Some(lineages)
}

/// The fact about own records in a row; `None`: this program does not know the row.
fn version_row(row: &RowBytes) -> Option<VersionRow> {
    let (shard, first, last) = (row.shard.get(), row.term.get(), row.version.get());
    Some(match row.what.get() {
        SETTLED => VersionRow::Settled { version: last },
        SKIPPED => VersionRow::Skipped { first, last },
        LED => VersionRow::Led {
            shard,
            term: Epoch(first),
            given: last,
        },
        VOID => VersionRow::Void { shard, first, last },
        DROPPED => VersionRow::Dropped {
            shard,
            version: last,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(nonce: u128, term: u64, cuts: &[(u64, u64)]) -> Lineage {
        let cuts = cuts.iter().map(|&(term, version)| (Epoch(term), version));
        Lineage {
            term: Epoch(term),
            floor: Point {
                term: Epoch(2),
                version: 40,
            },
            cuts: cuts.collect(),
            ..Lineage::new(Nonce::from_u128(nonce))
        }
    }

    #[test]
    fn the_rows_of_a_ledger_say_all_of_it() {
        let mut told = Told::default();
        told.lineages.keep(1, Lineage::default());
        told.lineages.keep(3, lineage(7, 9, &[(2, 60), (5, 50)]));
        told.lineages.keep(4, lineage(7 << 64, 3, &[]));
        told.lineages.keep(5, lineage(7 << 64, 3, &[(1, u64::MAX)]));
        told.versions.skip(3, 8);
        told.versions.lead(3, Epoch(9), 20);
        let rows = told.encode();
        assert_eq!(rows.len(), 14, "one row for a cluster, and one for a term");
        assert_eq!(Told::decode(rows.as_bytes()), Some(told));
    }

    #[test]
    fn rows_that_no_ledger_has_are_refused() {
        let unknown = RowBytes::new(3, 99, 1, 1);
        let floor_alone = RowBytes::new(3, FLOOR, 1, 1);
        for row in [unknown, floor_alone] {
            assert_eq!(Told::decode(row.as_bytes()), None);
        }
        let late = [
            RowBytes::new(0, SETTLED, 0, 1),
            RowBytes::new(3, TERM, 1, 0),
        ];
        assert_eq!(Told::decode(late.as_bytes()), None);
    }
}
