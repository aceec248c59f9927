//! Cache sizes and policies (Figure 8 and section 4.4).

use stonecast_published::asymnvm::{Policy, Variant};
use stonecast_structures::shapes::StructureKind;
use stonecast_workload::Distribution;

use super::cases::{Case, STRUCTURES, samples};
use super::load::{AsymLoad, AsymOutcome, AsymStore, Cached, KEYS};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const POLICIES: &str = "asymnvm-policies";
pub(super) const MISSES: &str = "asymnvm-policies-misses";
/// Bytes of a cache for each loaded key.
const SIZES: [u64; 6] = [1, 2, 4, 8, 32, 128];

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    Figure {
        axes: Axes {
            name: "asymnvm-caches",
            title: "Operations a second of RC by bytes of the cache for each loaded key (Figure 8); 1 in flight, half of them inserts",
            x_title: "bytes for each key",
            unit: "kop/s",
            series: &[
                "hash-table",
                "skip-list",
                "bst",
                "b-tree",
                "mv-bst",
                "mv-b-tree",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(sizes),
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: POLICIES,
            title: "Operations a second of RC on a B+tree by the policy of the cache; zipfian keys, 8 bytes for each key, 1 in flight",
            unit: "kop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| policies(runs, |outcome| outcome.kops)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: MISSES,
            title: "Nodes that were not in the cache, of all, in the same runs",
            unit: "%",
            ..AXES
        },
        measure: Measure::Time(|runs| policies(runs, |outcome| outcome.misses * 100.0)),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "policy",
    unit: "",
    series: &["b-tree", "bst", "hash-table"],
    published: nothing_published,
};

fn mixed(kind: StructureKind, cache: Cached) -> AsymLoad {
    AsymLoad {
        cache,
        write_percent: 50,
        keys: Distribution::ScrambledZipfian,
        ..AsymLoad::inserts(AsymStore::Published(Variant::Rc), kind)
    }
}

/// A cache with so many bytes for each key, whose time counts.
fn of_size(bytes: u64) -> Cached {
    Cached {
        size: KEYS * bytes,
        policy: Policy::Sample(32),
        by_level: false,
        counts: true,
    }
}

fn sizes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |(series, kind)| {
        SIZES.map(|bytes| Case {
            series,
            x: bytes.to_string(),
            load: mixed(kind, of_size(bytes)),
        })
    };
    let cases = STRUCTURES.into_iter().skip(2).flat_map(of).collect();
    samples(runs, cases, |outcome| outcome.kops)
}

fn policies(runs: &mut Runs, value: fn(&AsymOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let usual = of_size(8);
    let with = |policy| Cached { policy, ..usual };
    let by_level = Cached {
        by_level: true,
        ..usual
    };
    let of = |(series, kind)| {
        [
            ("LRU", with(Policy::Lru)),
            ("random", with(Policy::Random)),
            ("random 32", usual),
            ("random 32, upper levels", by_level),
        ]
        .map(|(x, cache)| Case {
            series,
            x: x.to_owned(),
            load: mixed(kind, cache),
        })
    };
    let structures = [
        ("b-tree", StructureKind::BTree),
        ("bst", StructureKind::Bst),
        ("hash-table", StructureKind::HashTable),
    ];
    samples(runs, structures.into_iter().flat_map(of).collect(), value)
}
