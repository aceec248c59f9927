//! Several front-ends: readers of one structure (Figure 9), writers of their own (Figure 10), and the processors
//! (Figure 11).

use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{Case, STRUCTURES, samples};
use super::load::{AsymLoad, AsymOutcome, AsymStore, Cached};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const READERS: &str = "asymnvm-readers";
pub(super) const RETRIES: &str = "asymnvm-readers-retries";
pub(super) const WRITERS: &str = "asymnvm-front-ends";
pub(super) const PROCESSORS: &str = "asymnvm-processors";

/// The figures.
pub(super) static FIGURES: [Figure; 5] = [
    Figure {
        axes: Axes {
            name: READERS,
            title: "Look-ups a second of each reader, by readers and updates of a hundred operations of the one writer (Figure 9)",
            ..AXES
        },
        measure: Measure::Time(|runs| readers(runs, |outcome| outcome.reader_kops)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: RETRIES,
            title: "Tries of readers that are repeated, of all tries, in the same runs",
            unit: "%",
            ..AXES
        },
        measure: Measure::Time(|runs| readers(runs, |outcome| outcome.retries * 100.0)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "asymnvm-readers-writer",
            title: "Operations a second of the writer in the same runs",
            ..AXES
        },
        measure: Measure::Time(|runs| readers(runs, |outcome| outcome.kops)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: WRITERS,
            title: "Inserts a second of each front-end of RCB, by front-ends with a structure of their own (Figure 10); 16 in flight",
            x_title: "front-ends",
            series: &[
                "hash-table",
                "bst",
                "b-tree",
                "mv-b-tree",
                "structures: b-tree",
            ],
            ..AXES
        },
        measure: Measure::Time(writers),
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: PROCESSORS,
            title: "Part of the time that processors work (Figure 11); one front-end, inserts of RCB and structures, 16 in flight",
            x_title: "structure",
            unit: "%",
            series: &[
                "front-end",
                "back-end",
                "structures: front-end",
                "structures: back-end",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(processors),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "readers, updates",
    unit: "kop/s",
    series: &["bst", "b-tree", "mv-bst", "mv-b-tree", "structures: b-tree"],
    published: nothing_published,
};

/// A place of the figures of readers.
pub(super) fn place(readers: u32, percent: u32) -> String {
    format!("{readers}, {percent} %")
}

fn readers(runs: &mut Runs, value: fn(&AsymOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let contestants = [
        ("bst", rcb, StructureKind::Bst),
        ("b-tree", rcb, StructureKind::BTree),
        ("mv-bst", rcb, StructureKind::MvBst),
        ("mv-b-tree", rcb, StructureKind::MvBTree),
        ("structures: b-tree", AsymStore::Ours, StructureKind::BTree),
    ];
    let places = [(1, 100), (6, 10), (6, 100)];
    let of = |(series, store, kind)| {
        places.map(|(readers, write_percent)| Case {
            series,
            x: place(readers, write_percent),
            load: AsymLoad {
                readers,
                write_percent,
                batch: 16,
                in_flight: 16,
                cache: Cached::ALL,
                ..AsymLoad::inserts(store, kind)
            },
        })
    };
    samples(runs, contestants.into_iter().flat_map(of).collect(), value)
}

fn writers(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let contestants = [
        ("hash-table", rcb, StructureKind::HashTable),
        ("bst", rcb, StructureKind::Bst),
        ("b-tree", rcb, StructureKind::BTree),
        ("mv-b-tree", rcb, StructureKind::MvBTree),
        ("structures: b-tree", AsymStore::Ours, StructureKind::BTree),
    ];
    let of = |(series, store, kind)| {
        [1, 2, 4, 7].map(|writers| Case {
            series,
            x: writers.to_string(),
            load: AsymLoad {
                writers,
                in_flight: 16,
                operations: 2048,
                ..AsymLoad::inserts(store, kind)
            },
        })
    };
    let cases = contestants.into_iter().flat_map(of).collect();
    samples(runs, cases, |outcome| outcome.kops)
}

fn processors(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let of = |store, series| {
        STRUCTURES.map(|(x, kind)| Case {
            series,
            x: x.to_owned(),
            load: AsymLoad {
                in_flight: 16,
                ..AsymLoad::inserts(store, kind)
            },
        })
    };
    let mut all = Vec::new();
    for (store, [front, back]) in [
        (rcb, ["front-end", "back-end"]),
        (
            AsymStore::Ours,
            ["structures: front-end", "structures: back-end"],
        ),
    ] {
        let busy = |outcome: &AsymOutcome| outcome.front_end_busy * 100.0;
        all.extend(samples(runs, of(store, front).into(), busy)?);
        let busy = |outcome: &AsymOutcome| outcome.back_end_busy * 100.0;
        all.extend(samples(runs, of(store, back).into(), busy)?);
    }
    Ok(all)
}
