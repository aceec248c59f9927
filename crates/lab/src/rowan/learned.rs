//! `kv` with clients that know the places of their keys beforehand, beside clients that do not, and Rowan-KV.

use stonecast_published::rowan::Replication;

use super::contest::{KvLoad, KvOutcome, Store};
use super::kv::KvOptions;
use super::threads::{self, of_loads_by_clients, published};
use crate::papers::{Axes, Figure, FigureError, Measure, Runs, Sample};

pub(super) const THROUGHPUT: &str = "rowan-threads-learned";

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: THROUGHPUT,
            title: "Throughput by clients, where clients of `kv` know the places of their keys (*kv-learned*) and where they do not; one worker thread for each server, 50 % PUT",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-threads-learned-get",
            title: "Median latency of GET of the same",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.get_us(0.5))),
        ..threads::FIGURE
    },
];

const AXES: Axes = Axes {
    series: &["rowan-kv", "kv", LEARNED],
    ..threads::AXES
};
pub(super) const LEARNED: &str = "kv-learned";

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let kv = KvLoad::of_threads(Store::Kv(KvOptions::USUAL));
    let learned = KvLoad {
        learns: true,
        ..kv.clone()
    };
    let rowan = KvLoad::of_threads(published(Replication::Append, 3));
    let loads = [("rowan-kv", rowan), ("kv", kv), (LEARNED, learned)];
    of_loads_by_clients(runs, &loads, value)
}
