//! Batch-KV by the bytes of a batch.

use stonecast_published::rowan::Replication;

use super::cases::{Case, samples};
use super::contest::{KvLoad, KvOutcome};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// Bytes at which a batch is sent.
const SIZES: [u32; 4] = [128, 256, 512, 1024];

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: "rowan-batches",
            title: "Throughput of Batch-KV by bytes of a batch, beside Rowan-KV; 50 % PUT, objects of ZippyDB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-batches-put",
            title: "Median latency of PUT of Batch-KV by bytes of a batch, beside Rowan-KV",
            unit: "us",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.put_us(0.5))),
        picture: Picture::Lines,
        section: Section::Standard,
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "bytes of a batch",
    unit: "",
    series: &["batch-kv", "rowan-kv"],
    published: nothing_published,
};

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |size: u32| {
        [Replication::Batch, Replication::Append].map(|replication| Case {
            series: replication.name(),
            x: size.to_string(),
            load: match replication {
                Replication::Batch => KvLoad::with(replication, |options| options.batch.0 = size),
                other => KvLoad::usual(other),
            },
        })
    };
    let cases: Vec<Case> = SIZES.into_iter().flat_map(of).collect();
    samples(runs, cases, value)
}
