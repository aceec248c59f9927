//! The pace that stores keep over several digests: `kv` beside Rowan-KV, over a time in which every node digests and
//! raises its floors a few times.

use stonecast_base::Nanoseconds;
use stonecast_published::rowan::Replication;
use stonecast_workload::Distribution;

use super::appends::rounded;
use super::cases::{Case, outcomes, samples};
use super::contest::{KvLoad, KvOutcome, Store};
use super::kv::KvOptions;
use super::threads::{self, of_loads_by_clients, published};
use crate::papers::{Axes, Figure, FigureError, Measure, Picture, Runs, Sample};

/// The measured time: a node of `kv` raises its floors once in 1 to 1.5 ms.
const MEASURED_NS: Nanoseconds = 6_000_000;
/// The threads of a published server with one worker: beside the worker, one digests, and one controls.
pub(super) const THREADS: u32 = 3;

pub(super) const THROUGHPUT: &str = "rowan-sustained";
pub(super) const PUT_MEDIAN: &str = "rowan-sustained-put";
pub(super) const PUT_P99: &str = "rowan-sustained-put-p99";
pub(super) const CAUSES: &str = "rowan-sustained-causes";
pub(super) const BUSY: &str = "rowan-sustained-busy";
pub(super) const THREE: &str = "kv-three-nodes";

/// The figures.
pub(super) static FIGURES: [Figure; 5] = [
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
    Figure {
        axes: Axes {
            name: BUSY,
            title: "Part of its time in which the thread of a node works over 6 ms, GETs alone, by clients",
            unit: "%",
            series: &["kv", THREE],
            ..AXES
        },
        measure: Measure::Time(busy),
        picture: Picture::None,
        ..threads::FIGURE
    },
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "`kv` with one node a server in multiples of Rowan-KV over 6 ms, with one respect changed at a time; 144 clients, 50 % PUT",
            x_title: "changed",
            unit: "x",
            series: &CAUSES_SERIES,
            ..AXES
        },
        measure: Measure::Time(by_causes),
        picture: Picture::None,
        ..threads::FIGURE
    },
];

const AXES: Axes = Axes {
    series: &["rowan-kv", "kv", THREE],
    ..threads::AXES
};

/// Three nodes on each server.
const OF_THREE: KvOptions = KvOptions {
    nodes_each: THREADS,
    ..KvOptions::USUAL
};

/// The work of nodes while clients read alone.
fn busy(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let case = |(series, options)| Case {
        series,
        x: threads::CLIENTS[3].to_string(),
        load: KvLoad {
            put_percent: 0,
            measured_ns: MEASURED_NS,
            ..KvLoad::of_threads(Store::Kv(options))
        },
    };
    let cases = [("kv", KvOptions::USUAL), (THREE, OF_THREE)].map(case);
    samples(runs, cases.into(), |outcome| outcome.workers_busy * 100.0)
}

/// A respect in which both runs differ, and the nodes of `kv` on each server.
type Change = (&'static str, u32, Distribution);

const CAUSES_SERIES: [&str; 3] = ["throughput", "median PUT", "99th percentile of PUT"];
const CHANGES: [Change; 3] = [
    ("nothing", 1, Distribution::ScrambledZipfian),
    ("keys equally likely", 1, Distribution::Uniform),
    (
        "kv has two nodes a server",
        2,
        Distribution::ScrambledZipfian,
    ),
];

fn by_causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let pair = |&(_, nodes_each, keys): &Change| {
        let kv = KvOptions {
            nodes_each,
            ..KvOptions::USUAL
        };
        [published(Replication::Append, 3), Store::Kv(kv)].map(|store| KvLoad {
            keys,
            measured_ns: MEASURED_NS,
            ..KvLoad::of_threads(store)
        })
    };
    let loads: Vec<KvLoad> = CHANGES.iter().flat_map(pair).collect();
    let outcomes = outcomes(runs, &loads)?;
    let samples = |((x, ..), pair): (&Change, &[KvOutcome])| {
        let values: [fn(&KvOutcome) -> f64; 3] = [
            KvOutcome::million_a_second,
            |outcome| outcome.put_us(0.5),
            |outcome| outcome.put_us(0.99),
        ];
        let series = CAUSES_SERIES.into_iter().zip(values);
        let sample = |(series, value): (&'static str, fn(&KvOutcome) -> f64)| Sample {
            series,
            x: (*x).to_owned(),
            y: rounded(value(&pair[1]) / value(&pair[0])),
        };
        series.map(sample).collect::<Vec<_>>()
    };
    let of_each = CHANGES.iter().zip(outcomes.chunks(2));
    Ok(of_each.flat_map(samples).collect())
}

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let loads = [
        ("rowan-kv", published(Replication::Append, 3)),
        ("kv", Store::Kv(KvOptions::USUAL)),
        (THREE, Store::Kv(OF_THREE)),
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
