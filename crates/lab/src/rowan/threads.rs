//! `kv` beside the published designs, with one worker thread for each server: a node of `kv` has one thread.

use stonecast_published::rowan::{Replication, RowanOptions};

use super::appends::rounded;
use super::cases::{ADDRESSES, CLIENTS_OF_THREADS, Case, outcomes, samples};
use super::contest::{KvLoad, KvOutcome, Store};
use super::kv::KvOptions;
use super::sizes::Objects;
use super::sustained::{THREADS, THREE};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Points, Runs, Sample, Section, nothing_published,
};

pub(super) const THROUGHPUT: &str = "rowan-threads-clients";
pub(super) const PUT_MEDIAN: &str = "rowan-threads-put";
pub(super) const PUT_P99: &str = "rowan-threads-put-p99";
pub(super) const MIXES: &str = "rowan-threads-mixes";
pub(super) const BUSY: &str = "rowan-threads-busy";
pub(super) const OBJECTS: &str = "rowan-threads-objects";
pub(super) const OBJECTS_MIXES: &str = "rowan-threads-objects-mixes";
pub(super) const BY_COPIES: &str = "rowan-threads-copies";
const CAUSES: &str = "rowan-threads-causes";
const CAUSES_SERIES: [&str; 2] = ["rowan-kv", "kv"];
/// The published designs that have worker threads.
pub(super) const PUBLISHED: &[&str] = AXES.series.split_at(6).0;
/// Clients, one operation at a time each.
pub(super) const CLIENTS: [u32; 4] = [8, 24, 48, CLIENTS_OF_THREADS];
/// Percent of PUTs.
pub(super) const PUTS: [u32; 4] = [100, 50, 5, 0];
/// Copies of an entry.
const COPIES: [u32; 5] = [1, 2, 3, 4, 5];

/// The figures.
pub(super) static FIGURES: [Figure; 14] = [
    Figure {
        axes: Axes {
            name: THROUGHPUT,
            title: "Throughput by clients; one worker thread for each server, 50 % PUT, objects of ZippyDB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, KvOutcome::million_a_second)),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: PUT_MEDIAN,
            title: "Median latency of PUT by clients; one worker thread for each server",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, |outcome| outcome.put_us(0.5))),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: PUT_P99,
            title: "99th percentile of the latency of PUT by clients; one worker thread for each server",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, |outcome| outcome.put_us(0.99))),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-threads-get",
            title: "Median latency of GET by clients; one worker thread for each server",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, |outcome| outcome.get_us(0.5))),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-threads-get-p99",
            title: "99th percentile of the latency of GET by clients; one worker thread for each server",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, |outcome| outcome.get_us(0.99))),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-threads-amplification",
            title: "Bytes that the media wrote for each byte that reached them, by clients; one worker thread for each server",
            unit: "bytes/byte",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, |outcome| outcome.write_amplification)),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-threads-media",
            title: "Bytes that the media of all servers wrote for each PUT, by clients; one worker thread for each server",
            unit: "bytes",
            ..AXES
        },
        measure: Measure::Time(|runs| by_clients(runs, KvOutcome::written_a_put)),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: MIXES,
            title: "Throughput by percent of PUTs; one worker thread for each server, 144 clients, objects of ZippyDB",
            unit: "Mop/s",
            ..AXES_OF_MIXES
        },
        measure: Measure::Time(|runs| by_mixes(runs, KvOutcome::million_a_second)),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: BUSY,
            title: "Part of its time in which the worker thread of a server works, by percent of PUTs",
            unit: "%",
            ..AXES_OF_MIXES
        },
        measure: Measure::Time(|runs| by_mixes(runs, |outcome| outcome.workers_busy * 100.0)),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: OBJECTS,
            title: "Throughput by objects; one worker thread for each server, 144 clients, 50 % PUT",
            x_title: "objects",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(by_objects),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: OBJECTS_MIXES,
            title: "Throughput by objects and percent of PUTs; one worker thread for each server, 144 clients",
            x_title: "objects, PUT",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(by_objects_and_mixes),
        picture: Picture::None,
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: BY_COPIES,
            title: "Throughput by copies; one worker thread for each server, 144 clients, 50 % PUT, objects of ZippyDB",
            x_title: "copies",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(by_copies),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "Throughput of `kv` in multiples of Rowan-KV's with one worker thread for each server, with one respect changed at a time; 144 clients, 100 % PUT",
            x_title: "changed",
            unit: "x",
            series: &["kv"],
            ..AXES
        },
        measure: Measure::Time(ratios_by_causes),
        picture: Picture::None,
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-threads-causes-rates",
            title: "The throughputs that these are the ratios of",
            x_title: "changed",
            unit: "Mop/s",
            series: &CAUSES_SERIES,
            ..AXES
        },
        measure: Measure::Time(rates_by_causes),
        picture: Picture::None,
        ..FIGURE
    },
];

pub(super) const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "clients",
    unit: "us",
    series: &[
        "rowan-kv",
        "rpc-kv",
        "rwrite-kv",
        "batch-kv",
        "share-kv",
        "hermes-like",
        "kv",
    ],
    published: nothing_published,
};
/// Axes of the figures that have `kv` with three nodes a server as well.
const AXES_OF_MIXES: Axes = Axes {
    x_title: "PUT, %",
    series: &[
        "rowan-kv",
        "rpc-kv",
        "rwrite-kv",
        "batch-kv",
        "share-kv",
        "hermes-like",
        "kv",
        THREE,
    ],
    ..AXES
};
pub(super) const FIGURE: Figure = Figure {
    axes: AXES,
    measure: Measure::Time(|_| Ok(Vec::new())),
    picture: Picture::Lines,
    section: Section::Standard,
};

/// The throughput of `kv` in multiples of that of the fastest published design, with `clients`.
pub(super) fn advantage(points: &Points, clients: &str) -> f64 {
    let at = |series: &&str| points.at(THROUGHPUT, series, clients);
    let fastest = PUBLISHED.iter().filter_map(at).fold(0.0, f64::max);
    at(&"kv").expect("a point of the figure") / fastest
}

/// A value of the store `series` in multiples of Rowan-KV's, with `clients`.
pub(super) fn of_rowan(points: &Points, figure: &str, (series, clients): (&str, &str)) -> f64 {
    let at = |series| {
        let value = points.at(figure, series, clients);
        value.expect("a point of the figure")
    };
    at(series) / at("rowan-kv")
}

/// A published design whose servers have one worker thread each.
pub(super) fn published(replication: Replication, copies: u32) -> Store {
    Store::Replicated(RowanOptions {
        workers: 1,
        digesters: 1,
        copies,
        ..RowanOptions::published(replication, ADDRESSES)
    })
}

/// A case for each published design, and one for `kv` with one node a server.
fn of_each(x: &str, copies: u32, change: impl Fn(&mut KvLoad)) -> Vec<Case> {
    let kv = KvOptions {
        copies,
        ..KvOptions::USUAL
    };
    let of_paper = |replication: Replication| (replication.name(), published(replication, copies));
    let stores = Replication::ALL.map(of_paper).into_iter();
    let case = |(series, store): (&'static str, Store)| {
        let mut load = KvLoad::of_threads(store);
        change(&mut load);
        Case {
            series,
            x: x.to_owned(),
            load,
        }
    };
    stores.chain([("kv", Store::Kv(kv))]).map(case).collect()
}

/// A case for `kv` with as many nodes a server as a published server has threads.
fn of_three(x: &str, change: impl Fn(&mut KvLoad)) -> Case {
    let mut load = KvLoad::of_threads(Store::Kv(KvOptions {
        nodes_each: THREADS,
        ..KvOptions::USUAL
    }));
    change(&mut load);
    Case {
        series: THREE,
        x: x.to_owned(),
        load,
    }
}

fn by_clients(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |clients: u32| of_each(&clients.to_string(), 3, |load| load.clients = clients);
    samples(runs, CLIENTS.into_iter().flat_map(of).collect(), value)
}

/// A point for each of `loads` with each number of [`CLIENTS`].
pub(super) fn of_loads_by_clients(
    runs: &mut Runs,
    loads: &[(&'static str, KvLoad)],
    value: fn(&KvOutcome) -> f64,
) -> Result<Vec<Sample>, FigureError> {
    let of = |clients: u32| {
        let case = move |(series, load): &(&'static str, KvLoad)| Case {
            series,
            x: clients.to_string(),
            load: KvLoad {
                clients,
                ..load.clone()
            },
        };
        loads.iter().map(case)
    };
    samples(runs, CLIENTS.into_iter().flat_map(of).collect(), value)
}

fn by_mixes(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |percent: u32| {
        let (x, change) = (percent.to_string(), |load: &mut KvLoad| {
            load.put_percent = percent;
        });
        let mut cases = of_each(&x, 3, change);
        cases.push(of_three(&x, change));
        cases
    };
    samples(runs, PUTS.into_iter().flat_map(of).collect(), value)
}

fn by_objects(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |objects: Objects| of_each(objects.name(), 3, |load| load.objects = objects);
    let cases = Objects::ALL.into_iter().flat_map(of).collect();
    samples(runs, cases, KvOutcome::million_a_second)
}

/// Objects of Facebook by the mixes that [`by_objects`] has not.
fn by_objects_and_mixes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut cases = Vec::new();
    for objects in [Objects::Up2x, Objects::Udb] {
        for percent in PUTS.into_iter().filter(|percent| *percent != 50) {
            let x = format!("{}, {percent} %", objects.name());
            cases.extend(of_each(&x, 3, |load| {
                load.objects = objects;
                load.put_percent = percent;
            }));
        }
    }
    samples(runs, cases, KvOutcome::million_a_second)
}

/// A respect in which both runs differ from those with PUTs alone, and the nodes of `kv` on each machine.
type Change = (&'static str, u32, fn(&mut KvLoad));

const CHANGES: [Change; 8] = [
    ("nothing", 1, |_| ()),
    ("kv has two nodes a server", 2, |_| ()),
    ("messages cost nothing", 1, |load| {
        load.machines.messages_percent = 0;
    }),
    ("the medium takes half", 1, |load| {
        load.machines.medium_percent = 50;
    }),
    ("lines of caches and DRAM cost nothing", 1, |load| {
        load.machines.lines_percent = 0;
    }),
    ("UDB", 1, |load| load.objects = Objects::Udb),
    ("UDB, lines of caches and DRAM cost nothing", 1, |load| {
        load.objects = Objects::Udb;
        load.machines.lines_percent = 0;
    }),
    ("UDB, the medium takes half", 1, |load| {
        load.objects = Objects::Udb;
        load.machines.medium_percent = 50;
    }),
];

/// The throughputs of Rowan-KV and of `kv`, for each change.
fn by_causes(runs: &mut Runs) -> Result<Vec<[f64; 2]>, FigureError> {
    let pair = |(_, nodes_each, change): &Change| {
        let kv = KvOptions {
            nodes_each: *nodes_each,
            ..KvOptions::USUAL
        };
        [published(Replication::Append, 3), Store::Kv(kv)].map(|store| {
            let mut load = KvLoad::of_threads(store);
            load.put_percent = 100;
            change(&mut load);
            load
        })
    };
    let loads: Vec<KvLoad> = CHANGES.iter().flat_map(pair).collect();
    let outcomes = outcomes(runs, &loads)?;
    let rates = |pair: &[KvOutcome]| [0, 1].map(|index| pair[index].million_a_second());
    Ok(outcomes.chunks(2).map(rates).collect())
}

fn ratios_by_causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let sample = |(&(x, ..), [rowan, kv]): (&Change, [f64; 2])| Sample {
        series: "kv",
        x: x.to_owned(),
        y: rounded(kv / rowan),
    };
    Ok(CHANGES.iter().zip(by_causes(runs)?).map(sample).collect())
}

fn rates_by_causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let samples = |(&(x, ..), rates): (&Change, [f64; 2])| {
        let of_each = CAUSES_SERIES.into_iter().zip(rates);
        let sample = |(series, rate)| Sample {
            series,
            x: x.to_owned(),
            y: rounded(rate),
        };
        of_each.map(sample).collect::<Vec<_>>()
    };
    let of_each = CHANGES.iter().zip(by_causes(runs)?);
    Ok(of_each.flat_map(samples).collect())
}

fn by_copies(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |copies: u32| of_each(&copies.to_string(), copies, |_| ());
    let cases = COPIES.into_iter().flat_map(of).collect();
    samples(runs, cases, KvOutcome::million_a_second)
}
