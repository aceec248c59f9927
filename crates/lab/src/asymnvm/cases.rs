//! The runs that figures share.

use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::load::{self, AsymLoad, AsymOutcome, AsymStore};
use crate::papers::{FigureError, Runs, Sample};

/// The structures in the order of Table 2, with their names in figures.
pub(super) const STRUCTURES: [(&str, StructureKind); 8] = [
    ("queue", StructureKind::Queue),
    ("stack", StructureKind::Stack),
    ("hash-table", StructureKind::HashTable),
    ("skip-list", StructureKind::SkipList),
    ("bst", StructureKind::Bst),
    ("b-tree", StructureKind::BTree),
    ("mv-bst", StructureKind::MvBst),
    ("mv-b-tree", StructureKind::MvBTree),
];

/// A run with its place in a figure.
pub(super) struct Case {
    pub series: &'static str,
    pub x: String,
    pub load: AsymLoad,
}

/// The name of a store in figures.
pub(super) fn name_of(store: AsymStore) -> &'static str {
    match store {
        AsymStore::Published(variant) => variant.name(),
        AsymStore::Flushed(Variant::Rcb) => "rcb-flushed",
        AsymStore::Flushed(Variant::R) => "r-flushed",
        AsymStore::Flushed(_) => "rc-flushed",
        AsymStore::Locked(_) => "r-locked",
        AsymStore::Ours => "structures",
        AsymStore::Mirrored => "structures-mirrored",
    }
}

/// The outcomes of loads, in their order.
pub(super) fn outcomes(
    runs: &mut Runs,
    loads: &[AsymLoad],
) -> Result<Vec<AsymOutcome>, FigureError> {
    Ok(runs.all(loads, load::measure)?)
}

/// A point for each case.
pub(super) fn samples(
    runs: &mut Runs,
    cases: Vec<Case>,
    value: fn(&AsymOutcome) -> f64,
) -> Result<Vec<Sample>, FigureError> {
    let loads: Vec<AsymLoad> = cases.iter().map(|case| case.load.clone()).collect();
    let outcomes = outcomes(runs, &loads)?;
    let sample = |(case, outcome): (Case, &AsymOutcome)| Sample {
        series: case.series,
        x: case.x,
        y: rounded(value(outcome)),
    };
    Ok(cases.into_iter().zip(&outcomes).map(sample).collect())
}

/// Rounds to two digits after the point.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
