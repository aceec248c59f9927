//! Readers of one structure beside its writer (Figure 9), and what decides how often they try again.

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{Case, outcomes, program_ns, rounded, samples, under, with_ddio};
use super::load::{AsymLoad, AsymOutcome, AsymStore};
use super::structures;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const READERS: &str = "asymnvm-readers";
pub(super) const RETRIES: &str = "asymnvm-readers-retries";
pub(super) const CAUSES: &str = "asymnvm-readers-causes";
/// The column of [`CAUSES`] with the writer of Table 2.
pub(super) const BOTH: &str = "both";

/// The figures.
pub(super) static FIGURES: [Figure; 7] = [
    LOOK_UPS,
    with_ddio(
        LOOK_UPS,
        "asymnvm-readers-on",
        "The figure asymnvm-readers with DDIO on",
        |runs| readers(runs, Ddio::On, look_ups),
    ),
    REPEATED,
    with_ddio(
        REPEATED,
        "asymnvm-readers-retries-on",
        "The figure asymnvm-readers-retries with DDIO on",
        |runs| readers(runs, Ddio::On, repeated),
    ),
    OF_WRITER,
    with_ddio(
        OF_WRITER,
        "asymnvm-readers-writer-on",
        "The figure asymnvm-readers-writer with DDIO on",
        |runs| readers(runs, Ddio::On, of_writer),
    ),
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "Six readers beside a writer of inserts alone, with one respect of the writer changed at a time: look-ups a second of a reader, what \
                    they lose against one reader, and tries that are repeated, of all; uniform keys, 16 in flight, DDIO off",
            x_title: "changed",
            unit: "of readers",
            series: &[
                "skip-list: kop/s",
                "skip-list: lost, %",
                "skip-list: repeated, %",
                "bst: kop/s",
                "bst: lost, %",
                "bst: repeated, %",
                "b-tree: kop/s",
                "b-tree: lost, %",
                "b-tree: repeated, %",
                "mv-bst: kop/s",
                "mv-bst: lost, %",
                "mv-bst: repeated, %",
                "mv-b-tree: kop/s",
                "mv-b-tree: lost, %",
                "mv-b-tree: repeated, %",
            ],
            ..AXES
        },
        measure: Measure::Time(causes),
        ..LOOK_UPS
    },
];

const LOOK_UPS: Figure = Figure {
    axes: Axes {
        name: READERS,
        title: "Look-ups a second of each reader, by readers and updates of a hundred operations of the one writer (Figure 9); uniform keys, 1 look-up of a \
                reader and 16 operations of the writer in flight, batches of 16, DDIO off",
        ..AXES
    },
    measure: Measure::Time(|runs| readers(runs, Ddio::Off, look_ups)),
    picture: Picture::None,
    section: Section::Standard,
};

const REPEATED: Figure = Figure {
    axes: Axes {
        name: RETRIES,
        title: "Tries of readers that are repeated, of all tries, in the runs of asymnvm-readers",
        unit: "%",
        ..AXES
    },
    measure: Measure::Time(|runs| readers(runs, Ddio::Off, repeated)),
    ..LOOK_UPS
};

const OF_WRITER: Figure = Figure {
    axes: Axes {
        name: "asymnvm-readers-writer",
        title: "Operations a second of the writer in the runs of asymnvm-readers",
        ..AXES
    },
    measure: Measure::Time(|runs| readers(runs, Ddio::Off, of_writer)),
    ..LOOK_UPS
};

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "readers, updates",
    unit: "kop/s",
    series: &[
        "skip-list",
        "bst",
        "b-tree",
        "mv-bst",
        "mv-b-tree",
        "structures: b-tree",
    ],
    published: nothing_published,
};

/// The structures of the paper's Figure 9.
const SHARED: [(&str, StructureKind); 5] = [
    ("skip-list", StructureKind::SkipList),
    ("bst", StructureKind::Bst),
    ("b-tree", StructureKind::BTree),
    ("mv-bst", StructureKind::MvBst),
    ("mv-b-tree", StructureKind::MvBTree),
];

/// A place of the figures.
pub(super) fn place(readers: u32, percent: u32) -> String {
    format!("{readers}, {percent} %")
}

fn look_ups(outcome: &AsymOutcome) -> f64 {
    outcome.reader_kops
}

fn repeated(outcome: &AsymOutcome) -> f64 {
    outcome.retries * 100.0
}

fn of_writer(outcome: &AsymOutcome) -> f64 {
    outcome.kops
}

fn beside(store: AsymStore, kind: StructureKind, (readers, percent): (u32, u32)) -> AsymLoad {
    AsymLoad {
        readers,
        write_percent: percent,
        batch: 16,
        in_flight: 16,
        // All shares have as many updates.
        operations: 204_800 / u64::from(percent),
        ..AsymLoad::inserts(store, kind)
    }
}

fn readers(
    runs: &mut Runs,
    ddio: Ddio,
    value: fn(&AsymOutcome) -> f64,
) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let published = SHARED.map(|(series, kind)| (series, rcb, kind));
    let ours = ("structures: b-tree", AsymStore::Ours, StructureKind::BTree);
    let places = [10, 50, 100].into_iter();
    let places = places.flat_map(|percent| (1..=6).map(move |readers| (readers, percent)));
    let of = |(series, store, kind)| {
        places.clone().map(move |at| Case {
            series,
            x: place(at.0, at.1),
            load: beside(store, kind, at),
        })
    };
    let contestants = published.into_iter().chain([ours]);
    let cases = contestants.flat_map(of).collect();
    samples(runs, under(ddio, cases), value)
}

fn causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let series_of = FIGURES[6].axes.series.chunks(3);
    let mut samples = Vec::new();
    for ((name, kind), series) in SHARED.into_iter().zip(series_of) {
        let in_batches = |readers, batch| AsymLoad {
            batch,
            operations: 8192,
            ..beside(rcb, kind, (readers, 100))
        };
        let alone = [in_batches(0, 16), in_batches(0, 1024)];
        let alone = outcomes(runs, &alone)?;
        // The time of a program that makes the writer as fast as in Table 2.
        let pace = |at: usize| program_ns(structures::published("rcb", name), alone[at].kops);
        let changes = [
            ("as above", 16, 0),
            ("batches of 1,024", 1024, 0),
            ("as fast as in Table 2", 16, pace(0)),
            (BOTH, 1024, pace(1)),
        ];
        for (x, batch, program_ns) in changes {
            let loads = [1, 6].map(|readers| AsymLoad {
                program_ns,
                ..in_batches(readers, batch)
            });
            let outcomes = outcomes(runs, &loads)?;
            let [one, six] = [&outcomes[0], &outcomes[1]];
            let lost = (1.0 - six.reader_kops / one.reader_kops) * 100.0;
            let values = [six.reader_kops, lost, repeated(six)];
            samples.extend(series.iter().zip(values).map(|(series, y)| Sample {
                series,
                x: x.to_owned(),
                y: rounded(y),
            }));
        }
    }
    Ok(samples)
}
