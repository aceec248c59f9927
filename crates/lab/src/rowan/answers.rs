//! The cost of processor answers to `kv`: backups that write entries back and answer, beside READs that make entries
//! durable. READs prove nothing where writes may pass them, or where a NIC writes into caches.

use stonecast_media::Ddio;

use super::contest::{KvLoad, KvOutcome, Store};
use super::kv::KvOptions;
use super::threads::{self, of_loads_by_clients};
use crate::papers::{Axes, Figure, FigureError, Measure, Runs, Sample};

const ANSWERED: &str = "kv-answered";

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    Figure {
        axes: Axes {
            name: "rowan-answers",
            title: "Throughput by clients, where READs make entries durable (*kv*), and where DDIO is on, and processors of the copies write back and answer (*kv-answered*); one node a server, 50 % PUT",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-answers-put",
            title: "Median latency of PUT of the same",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.put_us(0.5))),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-answers-put-p99",
            title: "99th percentile of the latency of PUT of the same",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.put_us(0.99))),
        ..threads::FIGURE
    },
];

const AXES: Axes = Axes {
    series: &["kv", ANSWERED],
    ..threads::AXES
};

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let answered = KvOptions {
        ddio: Ddio::On,
        ..KvOptions::USUAL
    };
    let loads = [("kv", KvOptions::USUAL), (ANSWERED, answered)];
    let loads = loads.map(|(series, options)| (series, KvLoad::of_threads(Store::Kv(options))));
    of_loads_by_clients(runs, &loads, value)
}
