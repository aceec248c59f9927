//! A reader beside a busy writer of the same structure against a reader alone, in virtual time: the machines of the
//! published evaluation, whose reader looks one key up after the other.

use stonecast_structures::shapes::StructureKind;

use super::{Pairs, StructuresError, StructuresOptions};
use crate::asymnvm::{AsymLoad, AsymStore, measure as run};
use crate::figures::{Definition, Direction, Judged};

const fn reader(name: &'static str, what: &'static str) -> Definition {
    Definition {
        name,
        what,
        unit: "kop/s",
        judged: Judged::Ratio,
        target: Some(0.8),
        direction: Direction::AtLeast,
    }
}

pub(super) const FIGURES: [Definition; 2] = [
    reader(
        "hash-table-reader",
        "hash table, reader beside a busy writer / alone; virtual",
    ),
    reader(
        "b-tree-reader",
        "B+tree, reader beside a busy writer / alone; virtual",
    ),
];
const KINDS: [StructureKind; 2] = [StructureKind::HashTable, StructureKind::BTree];

/// The same runs in each repetition would give the same.
pub(super) fn measure(_: &StructuresOptions) -> Result<Pairs, StructuresError> {
    let mut pairs = Pairs::new();
    for (figure, kind) in FIGURES.into_iter().zip(KINDS) {
        let busy = AsymLoad {
            readers: 1,
            in_flight: 16,
            operations: 8192,
            ..AsymLoad::inserts(AsymStore::Ours, kind)
        };
        // A writer that looks a key up now and then measures the time.
        let alone = AsymLoad {
            in_flight: 1,
            write_percent: 0,
            operations: 100,
            program_ns: 200_000,
            ..busy.clone()
        };
        let kops = |load| Ok::<_, StructuresError>(run(load)?.reader_kops);
        pairs.push((figure, vec![(kops(&busy)?, kops(&alone)?)]));
    }
    Ok(pairs)
}
