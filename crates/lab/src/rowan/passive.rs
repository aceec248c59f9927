//! `kv` beside the store like Clover, on as many machines, with as many client threads and clients.
//!
//! The servers of the store like Clover are memory, and its clients do all of the work. A limit of worker threads for
//! each server, as in the other figures of `kv`, does not touch it: the client threads decide.

use stonecast_published::clover::CloverOptions;

use super::cases::{Case, samples};
use super::contest::{KvLoad, KvOutcome, Store};
use super::kv::KvOptions;
use super::learned::LEARNED;
use super::others::clover;
use super::sustained::{THREADS, THREE};
use super::threads::{self, of_loads_by_clients};
use crate::papers::{Axes, Figure, FigureError, Measure, Points, Runs, Sample};

pub(super) const THROUGHPUT: &str = "rowan-passive-clients";
pub(super) const PUT_MEDIAN: &str = "rowan-passive-put";
pub(super) const PUT_P99: &str = "rowan-passive-put-p99";
pub(super) const MIXES: &str = "rowan-passive-mixes";
pub(super) const OPENED: &str = "clover-like";
const ASKING: &str = "clover-asking";

/// The figures.
pub(super) static FIGURES: [Figure; 5] = [
    Figure {
        axes: Axes {
            name: THROUGHPUT,
            title: "Throughput by clients of `kv` and of the store like Clover; 24 client threads, 50 % PUT, objects of ZippyDB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, KvOutcome::million_a_second)),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: PUT_MEDIAN,
            title: "Median latency of PUT of the same",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, |outcome| outcome.put_us(0.5))),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: PUT_P99,
            title: "99th percentile of the latency of PUT of the same",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, |outcome| outcome.put_us(0.99))),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-passive-get",
            title: "Median latency of GET of the same",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, |outcome| outcome.get_us(0.5))),
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: MIXES,
            title: "Throughput by percent of PUTs of `kv` with one node a server, with clients that know the places of their keys (*kv-learned*), and with three nodes a server (*kv-three-nodes*), and of the store like Clover; 24 client threads, 144 clients, objects of ZippyDB",
            x_title: "PUT, %",
            unit: "Mop/s",
            series: &["kv", LEARNED, THREE, OPENED, ASKING],
            ..AXES
        },
        measure: Measure::Time(by_mixes),
        ..threads::FIGURE
    },
];

const AXES: Axes = Axes {
    series: &["kv", OPENED, ASKING],
    ..threads::AXES
};

/// The throughput of `series` in multiples of that of the store like Clover, at a place of [`MIXES`].
pub(super) fn of_clover_like(points: &Points, series: &str, put_percent: &str) -> f64 {
    let at = |series| {
        let value = points.at(MIXES, series, put_percent);
        value.expect("a point of the figure")
    };
    at(series) / at(OPENED)
}

fn of_clover(is_opened: bool) -> KvLoad {
    KvLoad::of_threads(Store::Clover {
        options: clover(CloverOptions::PLACES, 0),
        is_opened,
    })
}

fn of_kv(nodes_each: u32) -> KvLoad {
    KvLoad::of_threads(Store::Kv(KvOptions {
        nodes_each,
        ..KvOptions::USUAL
    }))
}

fn by_clients(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let loads = [
        ("kv", of_kv(1)),
        (OPENED, of_clover(true)),
        (ASKING, of_clover(false)),
    ];
    of_loads_by_clients(runs, &loads, value)
}

fn by_mixes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |put_percent: u32| {
        let learned = KvLoad {
            learns: true,
            ..of_kv(1)
        };
        let loads = [
            ("kv", of_kv(1)),
            (LEARNED, learned),
            (THREE, of_kv(THREADS)),
            (OPENED, of_clover(true)),
            (ASKING, of_clover(false)),
        ];
        loads.map(|(series, load)| Case {
            series,
            x: put_percent.to_string(),
            load: KvLoad {
                put_percent,
                ..load
            },
        })
    };
    let cases: Vec<Case> = threads::PUTS.into_iter().flat_map(of).collect();
    samples(runs, cases, KvOutcome::million_a_second)
}
