//! Appends by senders and sizes: rate and write amplification.

use std::fmt::Write as _;

use stonecast_fabric_sim::MachineProfile;

use super::{Design, Load, Outcome, SENDERS, measure};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Points, Runs, Sample, Section, nothing_published,
};

/// The figures. One section of the page shows both.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: RATE,
            title: "Million records persisted a second by senders and bytes of a record",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| samples(runs, Outcome::million_a_second)),
        picture: Picture::None,
        section: Section::Own(all_points),
    },
    Figure {
        axes: Axes {
            name: AMPLIFICATION,
            title: "Bytes that the medium wrote for each byte that reached it, by senders and bytes of a record",
            unit: "bytes/byte",
            ..AXES
        },
        measure: Measure::Time(|runs| samples(runs, Outcome::write_amplification)),
        picture: Picture::None,
        section: Section::None,
    },
];

pub(super) const RATE: &str = "rowan-appends";
pub(super) const AMPLIFICATION: &str = "rowan-amplification";
const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "senders, bytes",
    unit: "",
    series: &["append", "write", "write-in-turns"],
    published: nothing_published,
};
const DESIGNS: [(&str, Design); 3] = [
    ("append", Design::Append),
    ("write", Design::Write),
    ("write-in-turns", Design::WriteInTurns),
];
/// The machines of the figures.
pub(super) const MACHINES: &str = "connectx5-rowan";
/// The numbers of senders of the points.
const SENDERS_OF_POINTS: [u32; 3] = [18, 72, SENDERS];
/// Bytes of records.
const SIZES: [u32; 3] = [64, 128, 256];

/// The places of the x axis.
fn places() -> impl Iterator<Item = (u32, u32)> {
    SENDERS_OF_POINTS
        .into_iter()
        .flat_map(|senders| SIZES.map(|size| (senders, size)))
}

/// The name of a place of the x axis.
pub(super) fn place(senders: u32, size: u32) -> String {
    format!("{senders}, {size}")
}

fn samples(runs: &mut Runs, value: fn(&Outcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |(senders, size): (u32, u32)| {
        DESIGNS.map(|(series, design)| {
            let load = Load {
                design,
                senders,
                size,
                local: 0,
            };
            (series, place(senders, size), load)
        })
    };
    samples_of(runs, places().flat_map(of).collect(), value)
}

/// A point for each case: its series, its place, and its load.
pub(super) fn samples_of(
    runs: &mut Runs,
    cases: Vec<(&'static str, String, Load)>,
    value: fn(&Outcome) -> f64,
) -> Result<Vec<Sample>, FigureError> {
    let profile = MachineProfile::by_name(MACHINES).expect("the profile is shipped");
    let loads: Vec<Load> = cases.iter().map(|&(.., load)| load).collect();
    let outcomes = runs.all(&loads, |load| measure(profile, load))?;
    let sample = |((series, x, _), outcome)| Sample {
        series,
        x,
        y: rounded(value(outcome)),
    };
    Ok(cases.into_iter().zip(&outcomes).map(sample).collect())
}

/// Rounds to two digits after the point.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn all_points(points: &Points) -> String {
    let mut text = "\n## All points\n\n| senders | bytes | design | million a second | write amplification |\n\
                    | ---: | ---: | --- | ---: | ---: |\n"
        .to_owned();
    for (senders, size) in places() {
        for (design, _) in DESIGNS {
            let at = |figure| {
                let value = points.at(figure, design, &place(senders, size));
                value.expect("all points were measured")
            };
            writeln!(
                text,
                "| {senders} | {size} | {design} | {:.1} | {:.2} |",
                at(RATE),
                at(AMPLIFICATION)
            )
            .expect("a String takes everything");
        }
    }
    text
}
