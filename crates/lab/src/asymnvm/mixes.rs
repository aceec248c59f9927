//! Shares of updates with keys by a power law (Figure 12), and the mixes of YCSB. The trace of the paper is private.

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;
use stonecast_workload::Distribution;

use super::cases::{Case, STRUCTURES, outcomes, program_ns, samples, under, with_ddio};
use super::load::{AsymKeys, AsymLoad, AsymStore, Cached};
use super::structures;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const CAUSES: &str = "asymnvm-mixes-causes";
pub(super) const MIXES: &str = "asymnvm-mixes";

/// The figures.
pub(super) static FIGURES: [Figure; 5] = [
    SHARES,
    with_ddio(
        SHARES,
        "asymnvm-mixes-on",
        "The figure asymnvm-mixes with DDIO on",
        |runs| shares(runs, Ddio::On),
    ),
    YCSB,
    with_ddio(
        YCSB,
        "asymnvm-ycsb-on",
        "The figure asymnvm-ycsb with DDIO on",
        |runs| ycsb(runs, Ddio::On),
    ),
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "Updates alone a second of RCB with one respect changed at a time, 16 in flight, DDIO off; the program of a batch as in asymnvm-layouts",
            x_title: "changed",
            unit: "kop/s",
            series: OFF_SERIES,
            published: nothing_published,
        },
        measure: Measure::Time(causes),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const SHARES: Figure = Figure {
    axes: Axes {
        name: MIXES,
        title: "Operations a second of RCB by updates of a hundred (Figure 12); zipfian keys with exponent 0.99, 16 in flight, room for a tenth in the \
                cache, DDIO off",
        x_title: "updates, %",
        unit: "kop/s",
        series: &["bst", "b-tree", "mv-bst", "mv-b-tree"],
        published: nothing_published,
    },
    measure: Measure::Time(|runs| shares(runs, Ddio::Off)),
    picture: Picture::Lines,
    section: Section::Standard,
};

const YCSB: Figure = Figure {
    axes: Axes {
        name: "asymnvm-ycsb",
        title: "Operations a second of one front-end under YCSB A, B and C: 50, 5 and 0 updates of a hundred, all of loaded keys; zipfian keys with \
                exponent 0.99, 16 in flight, all cached, DDIO off. The memory of the cache of rcb takes time, since nothing else does without updates; that \
                of structures takes none",
        x_title: "workload",
        unit: "kop/s",
        series: &[
            "rcb: hash-table",
            "rcb: skip-list",
            "rcb: bst",
            "rcb: b-tree",
            "rcb: mv-bst",
            "rcb: mv-b-tree",
            "structures: hash-table",
            "structures: skip-list",
            "structures: bst",
            "structures: b-tree",
            "structures: mv-bst",
            "structures: mv-b-tree",
        ],
        published: nothing_published,
    },
    measure: Measure::Time(|runs| ycsb(runs, Ddio::Off)),
    picture: Picture::None,
    section: Section::Standard,
};

fn mixed(store: AsymStore, kind: StructureKind, write_percent: u32) -> AsymLoad {
    AsymLoad {
        write_percent,
        in_flight: 16,
        keys: AsymKeys::ZIPFIAN,
        ..AsymLoad::inserts(store, kind)
    }
}

fn shares(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let of = |(series, kind)| {
        [0, 25, 50, 75, 100].map(|write_percent| Case {
            series,
            x: write_percent.to_string(),
            load: AsymLoad {
                cache: Cached::TENTH,
                ..mixed(rcb, kind, write_percent)
            },
        })
    };
    let cases = TREES.into_iter().flat_map(of).collect();
    samples(runs, under(ddio, cases), |outcome| outcome.kops)
}

const OFF_SERIES: &[&str] = &["bst", "b-tree", "mv-bst", "mv-b-tree"];
const TREES: [(&str, StructureKind); 4] = [
    ("bst", StructureKind::Bst),
    ("b-tree", StructureKind::BTree),
    ("mv-bst", StructureKind::MvBst),
    ("mv-b-tree", StructureKind::MvBTree),
];

fn causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    type Change = fn(&mut AsymLoad, u64);
    let changes: [(&str, Change); 5] = [
        ("nothing", |_, _| {}),
        ("uniform keys", |load, _| load.keys = AsymKeys::UNIFORM),
        ("newest keys", |load, _| {
            load.keys.frequencies = Distribution::Latest;
        }),
        ("all cached", |load, _| load.cache = Cached::ALL),
        ("the program of a batch", |load, program_ns| {
            load.program_ns = program_ns;
        }),
    ];
    let symmetric = AsymStore::Published(Variant::SymmetricB);
    let alone = TREES.map(|(_, kind)| structures::inserts(symmetric, kind, 1));
    let measured = outcomes(runs, &alone)?;
    let mut cases = Vec::new();
    for ((series, kind), outcome) in TREES.into_iter().zip(&measured) {
        let of_paper = structures::published("symmetric-b", series);
        let program_ns = program_ns(of_paper, outcome.kops);
        for (x, change) in changes {
            let mut load = AsymLoad {
                cache: Cached::TENTH,
                ..mixed(AsymStore::Published(Variant::Rcb), kind, 100)
            };
            change(&mut load, program_ns);
            let x = x.to_owned();
            cases.push(Case { series, x, load });
        }
    }
    samples(runs, cases, |outcome| outcome.kops)
}

fn ycsb(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let stores = [AsymStore::Published(Variant::Rcb), AsymStore::Ours];
    let kinds = STRUCTURES.map(|(_, kind)| kind);
    let contestants = stores.into_iter().flat_map(|store| {
        let with_keys = kinds.into_iter().skip(2);
        with_keys.map(move |kind| (store, kind))
    });
    let of = |(series, (store, kind)): (&&'static str, (AsymStore, StructureKind))| {
        [("A", 50), ("B", 5), ("C", 0)].map(|(x, write_percent)| Case {
            series,
            x: x.to_owned(),
            load: AsymLoad {
                keys: AsymKeys::YCSB,
                cache: Cached {
                    counts: true,
                    ..Cached::ALL
                },
                ..mixed(store, kind, write_percent)
            },
        })
    };
    let cases = YCSB.axes.series.iter().zip(contestants).flat_map(of);
    samples(runs, under(ddio, cases.collect()), |outcome| outcome.kops)
}
