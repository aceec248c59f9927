//! The pace that stores keep over several digests: `kv` beside Rowan-KV, over a time in which every node digests and
//! raises its floors a few times.

use stonecast_base::Nanoseconds;
use stonecast_published::rowan::Replication;

use super::contest::{KvLoad, KvOutcome, Store};
use super::kv::KvOptions;
use super::threads::{self, of_loads_by_clients, published};
use crate::papers::{Axes, Figure, FigureError, Measure, Runs, Sample};

/// The measured time: a node of `kv` raises its floors once in 1 to 1.5 ms.
const MEASURED_NS: Nanoseconds = 6_000_000;
/// The threads of a published server with one worker: beside the worker, one digests, and one controls.
pub(super) const THREADS: u32 = 3;

pub(super) const THROUGHPUT: &str = "rowan-sustained";
pub(super) const PUT_MEDIAN: &str = "rowan-sustained-put";
pub(super) const PUT_P99: &str = "rowan-sustained-put-p99";
pub(super) const THREE: &str = "kv-three-nodes";

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    Figure {
        axes: Axes {
            name: THROUGHPUT,
            title: "Throughput over 6 ms by clients; 50 % PUT, one worker, one digest and one control thread for each server of Rowan-KV, one node of one thread (*kv*) or three (*kv-three-nodes*)",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: PUT_MEDIAN,
            title: "Median latency of PUT of the same",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.put_us(0.5))),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: PUT_P99,
            title: "99th percentile of the latency of PUT of the same",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.put_us(0.99))),
        ..threads::FIGURE
    },
];

const AXES: Axes = Axes {
    series: &["rowan-kv", "kv", THREE],
    ..threads::AXES
};

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let three = KvOptions {
        nodes_each: THREADS,
        ..KvOptions::USUAL
    };
    let loads = [
        ("rowan-kv", published(Replication::Append, 3)),
        ("kv", Store::Kv(KvOptions::USUAL)),
        (THREE, Store::Kv(three)),
    ];
    let loads = loads.map(|(series, store)| {
        let load = KvLoad {
            measured_ns: MEASURED_NS,
            ..KvLoad::of_threads(store)
        };
        (series, load)
    });
    of_loads_by_clients(runs, &loads, value)
}
