//! Throughput by copies.

use stonecast_published::rowan::Replication;

use super::cases::{Case, SERIES, samples};
use super::contest::{KvLoad, KvOutcome};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// The figure.
pub(super) static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: "rowan-copies",
        title: "Throughput by copies of an entry; 50 % PUT, objects of ZippyDB",
        x_title: "copies",
        unit: "Mop/s",
        series: SERIES,
        published: nothing_published,
    },
    measure: Measure::Time(measure),
    picture: Picture::Lines,
    section: Section::Standard,
}];

fn measure(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let of = |copies: u32| {
        Replication::ALL.map(|replication| Case {
            series: replication.name(),
            x: copies.to_string(),
            load: KvLoad::with(replication, |options| options.copies = copies),
        })
    };
    let cases: Vec<Case> = (1..=5).flat_map(of).collect();
    samples(runs, cases, KvOutcome::million_a_second)
}
