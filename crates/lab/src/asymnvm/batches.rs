//! Batch sizes (Figure 7).

use stonecast_published::asymnvm::Variant;

use super::cases::{Case, STRUCTURES, samples};
use super::load::{AsymLoad, AsymStore, Cached};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const BATCHES: &str = "asymnvm-batches";
/// Operations of a batch.
pub(super) const SIZES: [usize; 7] = [1, 4, 16, 64, 256, 1024, 4096];

/// The figure.
pub(super) static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: BATCHES,
        title: "Inserts a second of RCB by operations of a batch (Figure 7), all of them in flight; room for a tenth in the cache",
        x_title: "operations of a batch",
        unit: "kop/s",
        series: &["skip-list", "bst", "b-tree", "mv-bst", "mv-b-tree"],
        published: nothing_published,
    },
    measure: Measure::Time(measure),
    picture: Picture::Lines,
    section: Section::Standard,
}];

fn measure(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |(series, kind)| {
        SIZES.map(|batch| Case {
            series,
            x: batch.to_string(),
            load: AsymLoad {
                batch,
                in_flight: batch,
                cache: Cached::TENTH,
                operations: 5464,
                ..AsymLoad::inserts(AsymStore::Published(Variant::Rcb), kind)
            },
        })
    };
    samples(
        runs,
        STRUCTURES.into_iter().skip(3).flat_map(of).collect(),
        |outcome| outcome.kops,
    )
}
