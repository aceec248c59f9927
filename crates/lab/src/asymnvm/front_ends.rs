//! Several front-ends that write structures of their own (Figure 10), and the processors (Figure 11).

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{Case, STRUCTURES, outcomes, program_ns, samples, under, with_ddio};
use super::load::{AsymLoad, AsymOutcome, AsymStore, Setting};
use super::structures;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const WRITERS: &str = "asymnvm-front-ends";
pub(super) const CAUSES: &str = "asymnvm-front-ends-causes";
pub(super) const PROCESSORS: &str = "asymnvm-processors";
/// The back-end of a front-end whose program needs so much time that it is as fast as RCB in Table 2.
pub(super) const AT_TABLE_2: &str = "back-end, as fast as in Table 2";
/// The series of [`WRITERS`] that are published ones.
pub(super) const PUBLISHED: [&str; 4] = ["hash-table", "bst", "b-tree", "mv-b-tree"];

/// The figures.
pub(super) static FIGURES: [Figure; 5] = [
    WRITERS_OFF,
    with_ddio(
        WRITERS_OFF,
        "asymnvm-front-ends-on",
        "The figure asymnvm-front-ends with DDIO on",
        |runs| writers(runs, Ddio::On),
    ),
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "Inserts a second of each front-end on B+trees of their own, with one respect changed at a time; uniform keys, 16 in flight, DDIO off",
            x_title: "front-ends",
            series: &[
                "structures",
                "structures, never published",
                "structures: back-end works, %",
                "rcb",
                "rcb, a batch waits until it is applied",
                "rcb: back-end works, %",
            ],
            ..AXES
        },
        measure: Measure::Time(causes),
        picture: Picture::None,
        section: Section::Standard,
    },
    PROCESSORS_OFF,
    with_ddio(
        PROCESSORS_OFF,
        "asymnvm-processors-on",
        "The figure asymnvm-processors with DDIO on",
        |runs| processors(runs, Ddio::On),
    ),
];

const WRITERS_OFF: Figure = Figure {
    axes: Axes {
        name: WRITERS,
        title: "Inserts a second of each front-end of RCB, by front-ends with a structure of their own (Figure 10); uniform keys, 16 in flight, all \
                cached, DDIO off",
        series: &[
            "hash-table",
            "bst",
            "b-tree",
            "mv-b-tree",
            "structures: b-tree",
        ],
        ..AXES
    },
    measure: Measure::Time(|runs| writers(runs, Ddio::Off)),
    picture: Picture::Lines,
    section: Section::Standard,
};

const PROCESSORS_OFF: Figure = Figure {
    axes: Axes {
        name: PROCESSORS,
        title: "Part of the time that processors work (Figure 11); one front-end, inserts of RCB and structures, uniform keys, 16 in flight, all cached, \
                DDIO off",
        x_title: "structure",
        unit: "%",
        series: &[
            "front-end",
            "back-end",
            AT_TABLE_2,
            "structures: front-end",
            "structures: back-end",
        ],
        published: nothing_published,
    },
    measure: Measure::Time(|runs| processors(runs, Ddio::Off)),
    picture: Picture::None,
    section: Section::Standard,
};

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "front-ends",
    unit: "kop/s",
    series: &[],
    published: nothing_published,
};

fn writers(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let contestants = [
        ("hash-table", rcb, StructureKind::HashTable),
        ("bst", rcb, StructureKind::Bst),
        ("b-tree", rcb, StructureKind::BTree),
        ("mv-b-tree", rcb, StructureKind::MvBTree),
        ("structures: b-tree", AsymStore::Ours, StructureKind::BTree),
    ];
    let of = |(series, store, kind)| {
        [1, 2, 3, 4, 5, 6, 7].map(|writers| Case {
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
    samples(runs, under(ddio, cases), |outcome| outcome.kops)
}

fn causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let load = |store, writers| AsymLoad {
        writers,
        in_flight: 16,
        ..AsymLoad::inserts(store, StructureKind::BTree)
    };
    let mut all = Vec::new();
    for (series, store, batch) in [
        ("structures", AsymStore::Ours, 1024),
        ("structures, never published", AsymStore::Ours, 1 << 20),
        ("rcb", rcb, 1024),
        (
            "rcb, a batch waits until it is applied",
            AsymStore::Applied(Variant::Rcb),
            1024,
        ),
    ] {
        let cases = [1, 2, 4, 7].map(|writers| Case {
            series,
            x: writers.to_string(),
            load: AsymLoad {
                batch,
                ..load(store, writers)
            },
        });
        all.extend(samples(runs, cases.into(), |outcome| outcome.kops)?);
    }
    for (series, store) in [
        ("structures: back-end works, %", AsymStore::Ours),
        ("rcb: back-end works, %", rcb),
    ] {
        let cases = [1, 2, 4, 7].map(|writers| Case {
            series,
            x: writers.to_string(),
            load: load(store, writers),
        });
        all.extend(samples(runs, cases.into(), |outcome| {
            outcome.back_end_busy * 100.0
        })?);
    }
    Ok(all)
}

fn processors(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let of = |store, series| {
        STRUCTURES.map(|(x, kind)| Case {
            series,
            x: x.to_owned(),
            load: AsymLoad {
                setting: Setting::with(ddio),
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
    let at_full_speed = outcomes(runs, &of(rcb, "").map(|case| case.load))?;
    let mut paced = Vec::new();
    for (case, outcome) in of(rcb, AT_TABLE_2).into_iter().zip(&at_full_speed) {
        let published = structures::published("rcb", &case.x);
        if published.is_some() {
            let program_ns = program_ns(published, outcome.kops);
            let load = AsymLoad {
                program_ns,
                ..case.load
            };
            paced.push(Case { load, ..case });
        }
    }
    all.extend(samples(runs, paced, |outcome| {
        outcome.back_end_busy * 100.0
    })?);
    Ok(all)
}
