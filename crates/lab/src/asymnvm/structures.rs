//! All structures by all variants (Table 2), beside `structures`, and the ratio of `structures` to RCB with 1, 16 and
//! 1,024 operations in flight.

use std::fmt::Write as _;

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{Case, STRUCTURES, name_of, outcomes, rounded, samples};
use super::load::{AsymLoad, AsymOutcome, AsymStore, Cached};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Points, Runs, Sample, Section, nothing_published,
};

pub(super) const ONE: &str = "asymnvm-structures-1";
pub(super) const TRIPS: &str = "asymnvm-trips";
pub(super) const RATIOS: &str = "asymnvm-ours";

const STORES: [AsymStore; 9] = [
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
const SERIES: &[&str] = &[
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
    Figure {
        axes: Axes {
            name: ONE,
            title: "Inserts a second by structure, 1 operation in flight; DDIO off",
            ..AXES
        },
        measure: Measure::Time(rates),
        picture: Picture::None,
        section: Section::Own(table_2),
    },
    Figure {
        axes: Axes {
            name: TRIPS,
            title: "Round trips of READs, and WRITEs, for an insert, 1 in flight; the number of either that the published time has room for",
            unit: "for an operation",
            series: &[
                "naive: READs",
                "naive: WRITEs",
                "naive: published time / round trip",
            ],
            published: nothing_published,
            ..AXES
        },
        measure: Measure::Time(trips),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: RATIOS,
            title: "structures in multiples of RCB (the hash table also of RC), by DDIO and operations in flight",
            x_title: "structure",
            unit: "x",
            series: &[
                "off, 1",
                "off, 16",
                "off, 1024",
                "off, 1, flushed",
                "off, 16, flushed",
                "off, 1024, flushed",
                "on, 1",
                "on, 16",
                "on, 1024",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(ratios),
        picture: Picture::None,
        section: Section::Standard,
    },
];

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

fn rates(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let case = |(x, kind): (&str, StructureKind), store: AsymStore| Case {
        series: name_of(store),
        x: x.to_owned(),
        load: inserts(store, kind, 1),
    };
    let of_each = |structure| STORES.map(|store| case(structure, store));
    let cases = STRUCTURES.into_iter().flat_map(of_each).collect();
    samples(runs, cases, |outcome| outcome.kops)
}

/// A round trip of a READ of 64 bytes on these machines, in microseconds: what one operation that needs nothing else
/// takes.
fn round_trip_us(outcome: &AsymOutcome) -> f64 {
    1000.0 / outcome.kops / (outcome.trips + outcome.writes)
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
                published_us / round_trip_us(outcome),
            ),
        ];
        values.map(|(series, y)| Sample {
            series,
            x: (*x).to_owned(),
            y: rounded(y),
        })
    });
    Ok(samples.collect())
}

fn ratios(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut columns: Vec<(&'static str, Ddio, usize, bool)> = Vec::new();
    for (series, in_flight) in [("off, 1", 1), ("off, 16", 16), ("off, 1024", 1024)] {
        columns.push((series, Ddio::Off, in_flight, false));
    }
    for (series, in_flight) in [
        ("off, 1, flushed", 1),
        ("off, 16, flushed", 16),
        ("off, 1024, flushed", 1024),
    ] {
        columns.push((series, Ddio::Off, in_flight, true));
    }
    for (series, in_flight) in [("on, 1", 1), ("on, 16", 16), ("on, 1024", 1024)] {
        columns.push((series, Ddio::On, in_flight, false));
    }
    let mut rows = STRUCTURES.map(|(x, kind)| (x, kind, Variant::Rcb)).to_vec();
    rows.push(("hash-table, RC", StructureKind::HashTable, Variant::Rc));
    let mut samples = Vec::new();
    for (series, ddio, in_flight, is_flushed) in columns {
        let pair = |kind: StructureKind, variant: Variant| {
            let rival = match is_flushed {
                true => AsymStore::Flushed(variant),
                false => AsymStore::Published(variant),
            };
            [AsymStore::Ours, rival].map(|store| AsymLoad {
                ddio,
                ..inserts(store, kind, in_flight)
            })
        };
        let pairs = rows
            .iter()
            .flat_map(|(_, kind, variant)| pair(*kind, *variant));
        let outcomes = outcomes(runs, &pairs.collect::<Vec<_>>())?;
        for ((x, ..), pair) in rows.iter().zip(outcomes.chunks(2)) {
            samples.push(Sample {
                series,
                x: (*x).to_owned(),
                y: rounded(pair[0].kops / pair[1].kops),
            });
        }
    }
    Ok(samples)
}

/// Table 2: the published number in front of the measured one.
fn table_2(points: &Points) -> String {
    let mut text = format!(
        "\n## {ONE}\n\nThousands of inserts a second (Table 2): published / here, 1 operation in flight, DDIO off. The paper does not say how many were in \
         flight.\n\n|"
    );
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
            let (published, here) = (published(series, x), points.at(ONE, series, x));
            write!(text, " | {} / {}", shown(published), shown(here))
                .expect("a String takes everything");
        }
        text += " |\n";
    }
    text
}
