//! The runs that figures share.

use stonecast_base::Nanoseconds;
use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::load::{self, AsymLoad, AsymOutcome, AsymStore};
use crate::papers::{Axes, Figure, FigureError, Measure, Picture, Runs, Sample};

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

/// The measurement of a figure.
pub(super) type Measuring = fn(&mut Runs) -> Result<Vec<Sample>, FigureError>;

/// A figure with DDIO off, measured with DDIO on. The figure has no picture of its own.
pub(super) const fn with_ddio(
    off: Figure,
    name: &'static str,
    title: &'static str,
    measure: Measuring,
) -> Figure {
    Figure {
        axes: Axes {
            name,
            title,
            ..off.axes
        },
        measure: Measure::Time(measure),
        picture: Picture::None,
        ..off
    }
}

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
        AsymStore::Applied(_) => "rcb-applied",
        AsymStore::Ours => "structures",
        AsymStore::Sliding => "structures-sliding",
        AsymStore::Ahead => "structures-ahead",
        AsymStore::Mirrored => "structures-mirrored",
    }
}

/// The same cases with this state of DDIO.
pub(super) fn under(ddio: Ddio, mut cases: Vec<Case>) -> Vec<Case> {
    for case in &mut cases {
        case.load.setting.ddio = ddio;
    }
    cases
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

/// The time of an operation for each of its round trips, in microseconds: with one under way that needs nothing else,
/// that of a READ of 64 bytes on these machines.
pub(super) fn round_trip_us(kops: f64, trips: f64) -> f64 {
    1000.0 / kops / trips
}

/// The program's time for an operation: the time of the published setting, in which nothing waits for the network, less
/// the measured time.
pub(super) fn program_ns(published_kops: Option<f64>, measured_kops: f64) -> Nanoseconds {
    let published_ns = published_kops.map_or(0.0, |kops| 1e6 / kops);
    (published_ns - 1e6 / measured_kops).max(0.0) as Nanoseconds
}

/// Rounds to two digits after the point.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
