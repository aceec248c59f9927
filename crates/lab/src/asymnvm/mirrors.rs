//! One mirror against none: the time of an operation that is acknowledged, and of one that is also visible.

use stonecast_media::Ddio;

use super::cases::{STRUCTURES, outcomes, rounded};
use super::load::{AsymLoad, AsymStore, Setting};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const RATIOS: &str = "asymnvm-mirrors";
pub(super) const TIMES: &str = "asymnvm-mirrors-times";

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: RATIOS,
            title: "structures with one mirror in multiples of the time without: an operation that is staged and durable, and an insert that is visible; 1 in flight, by DDIO",
            unit: "x",
            series: &["staged, off", "insert, off", "staged, on", "insert, on"],
            ..AXES
        },
        measure: Measure::Time(ratios),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: TIMES,
            title: "The same times: without and with a mirror",
            unit: "us",
            series: &[
                "staged, off, none",
                "staged, off, one",
                "insert, off, none",
                "insert, off, one",
                "staged, on, none",
                "staged, on, one",
                "insert, on, none",
                "insert, on, one",
            ],
            ..AXES
        },
        measure: Measure::Time(times),
        ..FIGURE
    },
];

const FIGURE: Figure = Figure {
    axes: AXES,
    measure: Measure::Time(times),
    picture: Picture::None,
    section: Section::Standard,
};

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "structure",
    unit: "",
    series: &[],
    published: nothing_published,
};

/// A kind of operation: DDIO, operations of a publication, and the names of its series.
struct Kind {
    ddio: Ddio,
    batch: usize,
    ratio: &'static str,
    times: [&'static str; 2],
}

/// Staged operations are published once in 1,024.
const KINDS: [Kind; 4] = [
    Kind {
        ddio: Ddio::Off,
        batch: 1024,
        ratio: "staged, off",
        times: ["staged, off, none", "staged, off, one"],
    },
    Kind {
        ddio: Ddio::Off,
        batch: 1,
        ratio: "insert, off",
        times: ["insert, off, none", "insert, off, one"],
    },
    Kind {
        ddio: Ddio::On,
        batch: 1024,
        ratio: "staged, on",
        times: ["staged, on, none", "staged, on, one"],
    },
    Kind {
        ddio: Ddio::On,
        batch: 1,
        ratio: "insert, on",
        times: ["insert, on, none", "insert, on, one"],
    },
];

/// Microseconds of an operation without and with a mirror, of each structure.
fn of_kind(runs: &mut Runs, kind: &Kind) -> Result<Vec<(&'static str, [f64; 2])>, FigureError> {
    let pair = |structure| {
        [AsymStore::Ours, AsymStore::Mirrored].map(|store| AsymLoad {
            setting: Setting::with(kind.ddio),
            batch: kind.batch,
            ..AsymLoad::inserts(store, structure)
        })
    };
    let loads: Vec<AsymLoad> = STRUCTURES
        .into_iter()
        .flat_map(|(_, structure)| pair(structure))
        .collect();
    let outcomes = outcomes(runs, &loads)?;
    let times = outcomes
        .chunks(2)
        .map(|pair| [1000.0 / pair[0].kops, 1000.0 / pair[1].kops]);
    Ok(STRUCTURES.iter().map(|(x, _)| *x).zip(times).collect())
}

fn ratios(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for kind in &KINDS {
        for (x, [none, one]) in of_kind(runs, kind)? {
            samples.push(Sample {
                series: kind.ratio,
                x: x.to_owned(),
                y: rounded(one / none),
            });
        }
    }
    Ok(samples)
}

fn times(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for kind in &KINDS {
        for (x, times) in of_kind(runs, kind)? {
            samples.extend(kind.times.into_iter().zip(times).map(|(series, y)| Sample {
                series,
                x: x.to_owned(),
                y: rounded(y),
            }));
        }
    }
    Ok(samples)
}
