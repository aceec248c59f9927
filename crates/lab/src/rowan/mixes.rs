//! Throughput by the part of PUTs and by objects.

use super::cases::{Case, SERIES, of_each_design, samples};
use super::contest::KvOutcome;
use super::sizes::Objects;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// Percent of PUTs.
const PUTS: [u32; 4] = [100, 50, 5, 0];

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: "rowan-mixes",
            title: "Throughput by percent of PUTs; objects of ZippyDB",
            x_title: "PUT, %",
            unit: "Mop/s",
            series: SERIES,
            published: nothing_published,
        },
        measure: Measure::Time(mixes),
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-objects",
            title: "Throughput by objects; 50 % PUT",
            x_title: "objects",
            unit: "Mop/s",
            series: SERIES,
            published: nothing_published,
        },
        measure: Measure::Time(objects),
        picture: Picture::Lines,
        section: Section::Standard,
    },
];

fn mixes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |percent: u32| of_each_design(&percent.to_string(), |load| load.put_percent = percent);
    let cases: Vec<Case> = PUTS.into_iter().flat_map(of).collect();
    samples(runs, cases, KvOutcome::million_a_second)
}

fn objects(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |objects: Objects| of_each_design(objects.name(), |load| load.objects = objects);
    let cases: Vec<Case> = Objects::ALL.into_iter().flat_map(of).collect();
    samples(runs, cases, KvOutcome::million_a_second)
}
