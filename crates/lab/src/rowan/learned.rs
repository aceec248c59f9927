//! `kv` with clients that know the places of their keys beforehand, beside clients that do not, and Rowan-KV.

use stonecast_published::rowan::Replication;

use super::cases::{Case, samples};
use super::contest::{KvLoad, KvOutcome, Store};
use super::kv::KvOptions;
use super::threads::{self, CLIENTS, published};
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
    let kv = Store::Kv(KvOptions::USUAL);
    let contestants = [
        ("rowan-kv", published(Replication::Append, 3), false),
        ("kv", kv.clone(), false),
        (LEARNED, kv, true),
    ];
    let of = |clients: u32| {
        let case = |(series, store, learns): (&'static str, Store, bool)| Case {
            series,
            x: clients.to_string(),
            load: KvLoad {
                clients,
                learns,
                ..KvLoad::of_threads(store)
            },
        };
        contestants.clone().map(case)
    };
    samples(runs, CLIENTS.into_iter().flat_map(of).collect(), value)
}
