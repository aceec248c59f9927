//! The load of Rowan-KV's control thread by the bytes of a receive buffer.

use stonecast_published::rowan::Replication;

use super::cases::{Case, samples};
use super::contest::KvLoad;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// KiB of a receive buffer, and of a segment: the artefact has 64, the paper 4096.
const SIZES: [u32; 4] = [16, 64, 512, 4096];
/// Bytes of persistent memory of a server.
const MEMORY: u32 = 1 << 30;

/// The figure.
pub(super) static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: "rowan-control",
        title: "Part of its time in which a control thread of Rowan-KV works, by KiB of a receive buffer; 50 % PUT, objects of ZippyDB",
        x_title: "KiB of a buffer",
        unit: "%",
        series: &["rowan-kv"],
        published: nothing_published,
    },
    measure: Measure::Time(measure),
    picture: Picture::Lines,
    section: Section::Standard,
}];

fn measure(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let case = |size: u32| Case {
        series: "rowan-kv",
        x: size.to_string(),
        load: KvLoad::with(Replication::Append, |options| {
            options.segment_size = size << 10;
            options.segments = MEMORY / options.segment_size;
        }),
    };
    let cases: Vec<Case> = SIZES.into_iter().map(case).collect();
    samples(runs, cases, |outcome| outcome.control_busy * 100.0)
}
