//! Cache sizes and policies (Figure 8 and section 4.4).

use stonecast_media::Ddio;
use stonecast_published::asymnvm::{Policy, Variant};
use stonecast_structures::shapes::StructureKind;

use super::cases::{Case, STRUCTURES, samples, under, with_ddio};
use super::load::{AsymKeys, AsymLoad, AsymOutcome, AsymStore, Cached, KEYS};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const POLICIES: &str = "asymnvm-policies";
pub(super) const FREE: &str = "asymnvm-policies-free";
pub(super) const MISSES_CAUSES: &str = "asymnvm-misses-causes";
pub(super) const MISSES: &str = "asymnvm-policies-misses";
/// Bytes of a cache for each loaded key.
const SIZES: [u64; 6] = [1, 2, 4, 8, 32, 128];

/// The figures.
pub(super) static FIGURES: [Figure; 7] = [
    SIZES_OFF,
    with_ddio(
        SIZES_OFF,
        "asymnvm-caches-on",
        "The figure asymnvm-caches with DDIO on",
        |runs| sizes(runs, Ddio::On),
    ),
    POLICIES_OFF,
    with_ddio(
        POLICIES_OFF,
        "asymnvm-policies-on",
        "The figure asymnvm-policies with DDIO on",
        |runs| policies(runs, (Ddio::On, true), |outcome| outcome.kops),
    ),
    Figure {
        axes: Axes {
            name: FREE,
            title: "The same with DDIO off if the memory of the cache takes no time: nodes, marks and lists of the policy",
            ..POLICIES_OFF.axes
        },
        measure: Measure::Time(|runs| policies(runs, (Ddio::Off, false), |outcome| outcome.kops)),
        ..POLICIES_OFF
    },
    Figure {
        axes: Axes {
            name: MISSES,
            title: "Nodes that were not in the cache, of all, in the runs of asymnvm-policies",
            unit: "%",
            ..AXES
        },
        measure: Measure::Time(|runs| {
            policies(runs, (Ddio::Off, true), |outcome| outcome.misses * 100.0)
        }),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: MISSES_CAUSES,
            title: "Nodes of the b-tree that were not in the cache, of all, by keys and bytes of the cache for each loaded key; RC, 1 in flight, half of the operations inserts, DDIO off",
            x_title: "keys, bytes for each",
            unit: "%",
            series: &["random 32", "random"],
            published: nothing_published,
        },
        measure: Measure::Time(misses),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const SIZES_OFF: Figure = Figure {
    axes: Axes {
        name: "asymnvm-caches",
        title: "Operations a second of RC by bytes of the cache for each loaded key (Figure 8); 1 in flight, half of them inserts, zipfian keys with \
                exponent 0.99, DDIO off",
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
    measure: Measure::Time(|runs| sizes(runs, Ddio::Off)),
    picture: Picture::Lines,
    section: Section::Standard,
};

const POLICIES_OFF: Figure = Figure {
    axes: Axes {
        name: POLICIES,
        title: "Operations a second of RC by the policy of the cache; 1 in flight, half of them inserts, zipfian keys with exponent 0.99, 8 bytes for \
                each key, DDIO off",
        unit: "kop/s",
        ..AXES
    },
    measure: Measure::Time(|runs| policies(runs, (Ddio::Off, true), |outcome| outcome.kops)),
    picture: Picture::None,
    section: Section::Standard,
};

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
        keys: AsymKeys::ZIPFIAN,
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
        remembers: false,
    }
}

fn sizes(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let of = |(series, kind)| {
        SIZES.map(|bytes| Case {
            series,
            x: bytes.to_string(),
            load: mixed(kind, of_size(bytes)),
        })
    };
    let cases = STRUCTURES.into_iter().skip(2).flat_map(of).collect();
    samples(runs, under(ddio, cases), |outcome| outcome.kops)
}

fn misses(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let keys = [
        ("uniform", AsymKeys::UNIFORM),
        ("zipfian", AsymKeys::ZIPFIAN),
        (
            "zipfian, 65,536 keys",
            AsymKeys {
                loaded: 65_536,
                ..AsymKeys::ZIPFIAN
            },
        ),
    ];
    let mut cases = Vec::new();
    for (series, policy) in [
        ("random 32", Policy::Sample(32)),
        ("random", Policy::Random),
    ] {
        for (name, keys) in keys {
            for bytes in [1, 2, 4, 8, 32] {
                if keys.loaded > KEYS && bytes != 2 {
                    continue;
                }
                let cache = Cached {
                    size: keys.loaded * bytes,
                    policy,
                    counts: false,
                    ..of_size(bytes)
                };
                cases.push(Case {
                    series,
                    x: format!("{name}, {bytes}"),
                    load: AsymLoad {
                        keys,
                        ..mixed(StructureKind::BTree, cache)
                    },
                });
            }
        }
    }
    samples(runs, cases, |outcome| outcome.misses * 100.0)
}

fn policies(
    runs: &mut Runs,
    (ddio, counts): (Ddio, bool),
    value: fn(&AsymOutcome) -> f64,
) -> Result<Vec<Sample>, FigureError> {
    let usual = Cached {
        counts,
        ..of_size(8)
    };
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
    let cases = structures.into_iter().flat_map(of).collect();
    samples(runs, under(ddio, cases), value)
}
