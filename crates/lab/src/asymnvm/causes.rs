//! The causes of the numbers of Table 2: one respect changed at a time.

use std::fmt::Write as _;

use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{Case, STRUCTURES, outcomes, program_ns, samples};
use super::load::{AsymLoad, AsymStore, Cached};
use super::structures::{self, inserts};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Points, Runs, Sample, Section, nothing_published,
};

pub(super) const CAUSES: &str = "asymnvm-causes";
pub(super) const PROGRAM: &str = "asymnvm-program";

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [CHANGED, WITH_PROGRAM];

const CHANGED: Figure = Figure {
    axes: Axes {
        name: CAUSES,
        title: "Inserts a second of R and RC with one respect changed at a time; 1 in flight where nothing else is said, uniform keys, DDIO off",
        x_title: "changed",
        unit: "kop/s",
        series: &["queue", "hash-table", "skip-list", "bst", "b-tree"],
        published: nothing_published,
    },
    measure: Measure::Time(measure),
    picture: Picture::None,
    section: Section::Standard,
};

const WITH_PROGRAM: Figure = Figure {
    axes: Axes {
        name: PROGRAM,
        title: "Inserts a second if the program needs the time that the published symmetric setting needs beyond the measured one; 1 in flight (symmetric) and 16 (the others), 1,024 in a batch, uniform keys, room for a tenth in the cache, DDIO off",
        x_title: "structure",
        unit: "kop/s",
        series: &["symmetric", "symmetric-b", "naive", "r", "rc", "rcb"],
        published: structures::published,
    },
    measure: Measure::Time(with_program),
    picture: Picture::None,
    section: Section::Own(program_section),
};

type Change = (&'static str, fn(&mut AsymLoad));

const CHANGES: [Change; 7] = [
    ("R, 1 in flight", |_| {}),
    ("R, 16 in flight", |load| load.in_flight = 16),
    ("R, flushed", |load| {
        load.store = AsymStore::Flushed(Variant::R);
    }),
    ("R, locked", |load| {
        load.store = AsymStore::Locked(Variant::R);
    }),
    ("RC, all cached", |load| {
        load.store = AsymStore::Published(Variant::Rc);
    }),
    ("RC, a tenth cached", |load| {
        load.store = AsymStore::Published(Variant::Rc);
        load.cache = Cached::TENTH;
    }),
    ("RC, a tenth cached, its memory takes time", |load| {
        load.store = AsymStore::Published(Variant::Rc);
        load.cache = Cached {
            counts: true,
            ..Cached::TENTH
        };
    }),
];

fn measure(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let structures = [
        ("queue", StructureKind::Queue),
        ("hash-table", StructureKind::HashTable),
        ("skip-list", StructureKind::SkipList),
        ("bst", StructureKind::Bst),
        ("b-tree", StructureKind::BTree),
    ];
    let of = |(series, kind)| {
        CHANGES.map(|(x, change)| {
            let mut load = AsymLoad::inserts(AsymStore::Published(Variant::R), kind);
            change(&mut load);
            Case {
                series,
                x: x.to_owned(),
                load,
            }
        })
    };
    samples(
        runs,
        structures.into_iter().flat_map(of).collect(),
        |outcome| outcome.kops,
    )
}

/// The rates with the program's time for each structure, which the symmetric setting tells.
fn with_program(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let symmetric = AsymStore::Published(Variant::Symmetric);
    let loads = STRUCTURES.map(|(_, kind)| inserts(symmetric, kind, 1));
    let measured = outcomes(runs, &loads)?;
    let mut cases = Vec::new();
    for ((x, kind), outcome) in STRUCTURES.into_iter().zip(&measured) {
        let program_ns = program_ns(structures::published("symmetric", x), outcome.kops);
        let stores = [
            ("symmetric", symmetric, 1),
            ("symmetric-b", AsymStore::Published(Variant::SymmetricB), 1),
            ("naive", AsymStore::Published(Variant::Naive), 16),
            ("r", AsymStore::Published(Variant::R), 16),
            ("rc", AsymStore::Published(Variant::Rc), 16),
            ("rcb", AsymStore::Published(Variant::Rcb), 16),
        ];
        for (series, store, in_flight) in stores {
            let load = AsymLoad {
                program_ns,
                cache: Cached::TENTH,
                ..inserts(store, kind, in_flight)
            };
            let x = x.to_owned();
            cases.push(Case { series, x, load });
        }
    }
    samples(runs, cases, |outcome| outcome.kops)
}

fn program_section(points: &Points) -> String {
    let mut text = format!(
        "\n## {PROGRAM}\n\n{}: published / here.\n\n| kop/s",
        WITH_PROGRAM.axes.title
    );
    for (name, _) in STRUCTURES {
        write!(text, " | {name}").expect("a String takes everything");
    }
    text += " |\n| ---";
    text += &" | ---".repeat(STRUCTURES.len());
    text += " |\n";
    for series in WITH_PROGRAM.axes.series {
        write!(text, "| {series}").expect("a String takes everything");
        for (x, _) in STRUCTURES {
            let shown =
                |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
            let published = shown(structures::published(series, x));
            let here = shown(points.at(PROGRAM, series, x));
            write!(text, " | {published} / {here}").expect("a String takes everything");
        }
        text += " |\n";
    }
    text
}
