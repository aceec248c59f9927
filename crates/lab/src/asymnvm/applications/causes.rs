//! The causes of the numbers of SmallBank and TATP: one respect changed at a time.

use stonecast_published::asymnvm::Variant;

use super::super::cases::{program_ns, round_trip_us, rounded};
use super::super::load::AsymStore;
use super::figures::{published_bank, published_tatp};
use super::{Application, ApplicationLoad, measure_application};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(in super::super) const TRIPS: &str = "asymnvm-applications-trips";
pub(in super::super) const LAYOUTS: &str = "asymnvm-applications-layouts";
pub(in super::super) const CAUSES: &str = "asymnvm-applications-causes";

/// The figures.
pub(in super::super) static FIGURES: [Figure; 3] = [
    Figure {
        axes: Axes {
            name: TRIPS,
            title: "Round trips of READs, and WRITEs, for a transaction, 1 in flight, DDIO off; the number of either that the published time has room for",
            x_title: "application",
            unit: "for a transaction",
            series: &[
                "naive: READs",
                "naive: READs, row by row",
                "naive: WRITEs",
                "naive: published time / round trip",
                "r: READs",
                "r: READs, row by row",
                "r: WRITEs",
                "r: published time / round trip",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(trips),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "Transactions a second with one respect changed at a time, 1 in flight but for the last column, DDIO off; the program's time is that by which the published symmetric setting is slower than the measured one",
            x_title: "changed",
            unit: "kop/s",
            series: &[
                "SmallBank, symmetric",
                "SmallBank, naive",
                "SmallBank, rc",
                "SmallBank, rcb",
                "TATP, symmetric",
                "TATP, symmetric-b",
                "TATP, naive",
                "TATP, rc",
                "TATP, rcb",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(causes),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: LAYOUTS,
            title: "Transactions a second of naive and R with one respect changed at a time, 1 in flight where nothing else is said, DDIO off; knows all: nothing is READ that the front-end has read or written; 96 to 64 bytes: a READ takes so many at most",
            x_title: "changed",
            unit: "kop/s",
            series: &["SmallBank, naive", "SmallBank, r", "TATP, naive", "TATP, r"],
            published: nothing_published,
        },
        measure: Measure::Time(layouts),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const APPLICATIONS: [(&str, Application, Published); 2] = [
    ("SmallBank", Application::SmallBank, published_bank),
    ("TATP", Application::Tatp, published_tatp),
];

type Published = fn(&str, &str) -> Option<f64>;

fn trips(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for (x, application, published) in APPLICATIONS {
        for (variant, names) in [
            (Variant::Naive, &FIGURES[0].axes.series[..4]),
            (Variant::R, &FIGURES[0].axes.series[4..]),
        ] {
            let together = ApplicationLoad::new(application, AsymStore::Published(variant), 1);
            let row_by_row = ApplicationLoad {
                reads_row_by_row: true,
                ..together
            };
            let outcomes = runs.all(&[together, row_by_row], measure_application)?;
            let published_us = published(variant.name(), "1").map_or(0.0, |kops| 1000.0 / kops);
            let values = [
                outcomes[0].trips,
                outcomes[1].trips,
                outcomes[0].writes,
                published_us
                    / round_trip_us(outcomes[0].kops, outcomes[0].trips + outcomes[0].writes),
            ];
            samples.extend(names.iter().zip(values).map(|(series, y)| Sample {
                series,
                x: x.to_owned(),
                y: rounded(y),
            }));
        }
    }
    Ok(samples)
}

fn causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for (name, application, published) in APPLICATIONS {
        let symmetric = AsymStore::Published(Variant::Symmetric);
        let alone = [ApplicationLoad::new(application, symmetric, 1)];
        let measured = &runs.all(&alone, measure_application)?[0];
        let program_ns = program_ns(published("symmetric", "1"), measured.kops);
        for series in FIGURES[1].axes.series {
            let Some(variant) = series
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(", "))
            else {
                continue;
            };
            let is_named = |variant_of: &&Variant| variant_of.name() == variant;
            let variant = Variant::ALL.iter().find(is_named);
            let store = AsymStore::Published(*variant.expect("series name variants"));
            let cases = changes(ApplicationLoad::new(application, store, 1), program_ns);
            let loads = cases.map(|(_, load)| load);
            let outcomes = runs.all(&loads, measure_application)?;
            samples.extend(cases.iter().zip(&outcomes).map(|((x, _), outcome)| Sample {
                series,
                x: (*x).to_owned(),
                y: rounded(outcome.kops),
            }));
        }
    }
    Ok(samples)
}

type Change = (&'static str, fn(&mut ApplicationLoad));

const LAYOUT_CHANGES: [Change; 11] = [
    ("nothing", |_| {}),
    ("16 in flight", |load| load.in_flight = 16),
    ("knows all", |load| load.knows_all = true),
    ("knows all, 2 in flight", |load| {
        load.knows_all = true;
        load.in_flight = 2;
    }),
    ("96 bytes", |load| load.read_size_max = 96),
    ("80 bytes", |load| load.read_size_max = 80),
    ("16 times the rows", |load| load.scale = 16),
    ("64 bytes", |load| load.read_size_max = 64),
    ("row by row", |load| load.reads_row_by_row = true),
    ("64 bytes, row by row", |load| {
        load.read_size_max = 64;
        load.reads_row_by_row = true;
    }),
    ("64 bytes, row by row, 16 times the rows", |load| {
        load.read_size_max = 64;
        load.reads_row_by_row = true;
        load.scale = 16;
    }),
];

fn layouts(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    let variants = [Variant::Naive, Variant::R].into_iter();
    let cases = APPLICATIONS.into_iter().flat_map(|(_, application, _)| {
        let variants = variants.clone();
        variants
            .map(move |variant| ApplicationLoad::new(application, AsymStore::Published(variant), 1))
    });
    for (series, unchanged) in FIGURES[2].axes.series.iter().zip(cases) {
        let loads = LAYOUT_CHANGES.map(|(_, change)| {
            let mut load = unchanged;
            change(&mut load);
            load
        });
        let outcomes = runs.all(&loads, measure_application)?;
        let of_each = LAYOUT_CHANGES.iter().zip(&outcomes);
        samples.extend(of_each.map(|((x, _), outcome)| Sample {
            series,
            x: (*x).to_owned(),
            y: rounded(outcome.kops),
        }));
    }
    Ok(samples)
}

/// A case with one respect changed at a time, and with all of them.
fn changes(unchanged: ApplicationLoad, program_ns: u64) -> [(&'static str, ApplicationLoad); 6] {
    let with_program = ApplicationLoad {
        program_ns,
        ..unchanged
    };
    let a_tenth = ApplicationLoad {
        caches_a_tenth: true,
        ..unchanged
    };
    [
        ("nothing", unchanged),
        ("the program's time", with_program),
        ("a tenth cached", a_tenth),
        (
            "a tenth cached, row by row",
            ApplicationLoad {
                reads_row_by_row: true,
                ..a_tenth
            },
        ),
        (
            "all of these",
            ApplicationLoad {
                program_ns,
                reads_row_by_row: true,
                ..a_tenth
            },
        ),
        (
            "all of these, 16 in flight",
            ApplicationLoad {
                program_ns,
                reads_row_by_row: true,
                in_flight: 16,
                ..a_tenth
            },
        ),
    ]
}
