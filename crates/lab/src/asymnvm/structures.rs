//! All structures by all variants (Table 2), beside `structures`.

use std::fmt::Write as _;

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{
    Case, STRUCTURES, name_of, outcomes, round_trip_us, rounded, samples, under, with_ddio,
};
use super::load::{AsymLoad, AsymStore, Cached};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Points, Runs, Sample, Section, nothing_published,
};

pub(super) const ONE: &str = "asymnvm-structures-1";
pub(super) const TRIPS: &str = "asymnvm-trips";

/// The published variants, two of them also with a READ behind each append, and `structures`.
pub(super) const STORES: [AsymStore; 9] = [
    AsymStore::Published(Variant::Symmetric),
    AsymStore::Published(Variant::SymmetricB),
    AsymStore::Published(Variant::Naive),
    AsymStore::Published(Variant::R),
    AsymStore::Published(Variant::Rc),
    AsymStore::Flushed(Variant::Rc),
    AsymStore::Published(Variant::Rcb),
    AsymStore::Flushed(Variant::Rcb),
    AsymStore::Ours,
];
/// The names of [`STORES`] in figures.
pub(super) const SERIES: &[&str] = &[
    "symmetric",
    "symmetric-b",
    "naive",
    "r",
    "rc",
    "rc-flushed",
    "rcb",
    "rcb-flushed",
    "structures",
];

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    TABLE,
    Figure {
        section: Section::Own(|points| table_2(points, &ON_AXES)),
        ..with_ddio(TABLE, ON_AXES.name, ON_AXES.title, |runs| {
            rates(runs, Ddio::On)
        })
    },
    Figure {
        axes: Axes {
            name: TRIPS,
            title: "Round trips of READs, and WRITEs, for an insert, 1 in flight, DDIO off; the number of either that the published time has room for. Written kept: the front-end made the structure itself, and its cache also keeps what is written",
            unit: "for an operation",
            series: &[
                "naive: READs",
                "naive: WRITEs",
                "naive: published time / round trip",
                "rcb: READs",
                "rcb: READs, written kept",
            ],
            published: nothing_published,
            ..AXES
        },
        measure: Measure::Time(trips),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const OFF_AXES: Axes = Axes {
    name: ONE,
    title: "Inserts a second by structure (Table 2), 1 operation in flight, uniform keys, all cached, DDIO off; the paper does not say how many were in \
            flight",
    ..AXES
};

const TABLE: Figure = Figure {
    axes: OFF_AXES,
    measure: Measure::Time(|runs| rates(runs, Ddio::Off)),
    picture: Picture::None,
    section: Section::Own(|points| table_2(points, &OFF_AXES)),
};

const ON_AXES: Axes = Axes {
    name: "asymnvm-structures-1-on",
    title: "The figure asymnvm-structures-1 with DDIO on",
    ..AXES
};

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "structure",
    unit: "kop/s",
    series: SERIES,
    published,
};

/// Table 2 of the paper.
pub(super) fn published(series: &str, x: &str) -> Option<f64> {
    let row = match series {
        "symmetric" => [1199.0, 1087.0, 1097.0, 125.2, 84.5, 305.2, 42.2, 18.6],
        "symmetric-b" => [2279.0, 2255.0, 0.0, 209.0, 151.0, 343.0, 146.1, 76.0],
        "naive" => [301.0, 285.0, 315.0, 5.0, 19.0, 11.5, 7.0, 7.4],
        "r" => [833.0, 828.0, 385.0, 7.7, 22.9, 13.7, 12.3, 9.8],
        "rc" => [0.0, 0.0, 445.0, 40.4, 59.5, 77.1, 28.4, 17.8],
        "rcb" => [1678.0, 1449.0, 0.0, 66.0, 134.2, 184.3, 88.9, 60.2],
        _ => return None,
    };
    let at = STRUCTURES.iter().position(|(name, _)| *name == x)?;
    (row[at] > 0.0).then_some(row[at])
}

/// Inserts with so many in flight.
pub(super) fn inserts(store: AsymStore, kind: StructureKind, in_flight: usize) -> AsymLoad {
    AsymLoad {
        in_flight,
        cache: Cached::ALL,
        ..AsymLoad::inserts(store, kind)
    }
}

fn rates(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let case = |(x, kind): (&str, StructureKind), store: AsymStore| Case {
        series: name_of(store),
        x: x.to_owned(),
        load: inserts(store, kind, 1),
    };
    let of_each = |structure| STORES.map(|store| case(structure, store));
    let cases = STRUCTURES.into_iter().flat_map(of_each).collect();
    samples(runs, under(ddio, cases), |outcome| outcome.kops)
}

fn trips(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let naive = AsymStore::Published(Variant::Naive);
    let loads = STRUCTURES.map(|(_, kind)| inserts(naive, kind, 1));
    let outcomes = outcomes(runs, &loads)?;
    let of_each = STRUCTURES.iter().zip(&outcomes);
    let samples = of_each.flat_map(|((x, _), outcome)| {
        let published_us = published("naive", x).map_or(0.0, |kops| 1000.0 / kops);
        let values = [
            ("naive: READs", outcome.trips),
            ("naive: WRITEs", outcome.writes),
            (
                "naive: published time / round trip",
                published_us / round_trip_us(outcome.kops, outcome.trips + outcome.writes),
            ),
        ];
        values.map(|(series, y)| Sample {
            series,
            x: (*x).to_owned(),
            y: rounded(y),
        })
    });
    let mut samples: Vec<Sample> = samples.collect();
    for (series, cache) in [
        ("rcb: READs", Cached::ALL),
        ("rcb: READs, written kept", Cached::WRITTEN),
    ] {
        let rcb = AsymStore::Published(Variant::Rcb);
        let of = |(x, kind): (&str, StructureKind)| Case {
            series,
            x: x.to_owned(),
            load: AsymLoad {
                cache,
                ..inserts(rcb, kind, 1)
            },
        };
        let cases = STRUCTURES.map(of).into();
        samples.extend(super::cases::samples(runs, cases, |outcome| outcome.trips)?);
    }
    Ok(samples)
}

/// Table 2: the published number in front of the measured one.
fn table_2(points: &Points, axes: &Axes) -> String {
    let Axes {
        name: figure,
        title,
        unit,
        ..
    } = axes;
    if points.of(figure).next().is_none() {
        return String::new();
    }
    let mut text = format!("\n## {figure}\n\n{title}: published / here\n\n| {unit}");
    for (name, _) in STRUCTURES {
        write!(text, " | {name}").expect("a String takes everything");
    }
    text += " |\n| ---";
    text += &" | ---".repeat(STRUCTURES.len());
    text += " |\n";
    for series in SERIES {
        write!(text, "| {series}").expect("a String takes everything");
        for (x, _) in STRUCTURES {
            let shown =
                |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
            let (published, here) = (published(series, x), points.at(figure, series, x));
            write!(text, " | {} / {}", shown(published), shown(here))
                .expect("a String takes everything");
        }
        text += " |\n";
    }
    text
}
