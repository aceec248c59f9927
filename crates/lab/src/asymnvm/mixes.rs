//! Shares of updates with keys by a power law (Figure 12). The trace of the paper is private.

use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;
use stonecast_workload::Distribution;

use super::cases::{Case, samples};
use super::load::{AsymLoad, AsymStore, Cached};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// The figure.
pub(super) static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: "asymnvm-mixes",
        title: "Operations a second of RCB by updates of a hundred (Figure 12); zipfian keys with exponent 0.99, 16 in flight, room for a tenth in the \
                cache",
        x_title: "updates, %",
        unit: "kop/s",
        series: &["bst", "b-tree", "mv-bst", "mv-b-tree"],
        published: nothing_published,
    },
    measure: Measure::Time(measure),
    picture: Picture::Lines,
    section: Section::Standard,
}];

fn measure(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |(series, kind)| {
        [0, 25, 50, 75, 100].map(|write_percent| Case {
            series,
            x: write_percent.to_string(),
            load: AsymLoad {
                write_percent,
                in_flight: 16,
                cache: Cached::TENTH,
                keys: Distribution::ScrambledZipfian,
                ..AsymLoad::inserts(AsymStore::Published(Variant::Rcb), kind)
            },
        })
    };
    let structures = [
        ("bst", StructureKind::Bst),
        ("b-tree", StructureKind::BTree),
        ("mv-bst", StructureKind::MvBst),
        ("mv-b-tree", StructureKind::MvBTree),
    ];
    samples(
        runs,
        structures.into_iter().flat_map(of).collect(),
        |outcome| outcome.kops,
    )
}
