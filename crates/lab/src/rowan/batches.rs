//! Batch-KV by the bytes of a batch, and by the longest wait of its first entry.

use stonecast_base::Nanoseconds;
use stonecast_published::rowan::{Replication, RowanOptions};

use super::cases::{Case, samples};
use super::contest::{KvLoad, KvOutcome};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// Bytes at which a batch is sent.
const SIZES: [u32; 4] = [128, 256, 512, 1024];
/// Microseconds of the longest wait. The published ones are 5.
const WAITS: [u32; 5] = [1, 2, 5, 10, 20];

/// The figures.
pub(super) static FIGURES: [Figure; 4] = [
    Figure {
        axes: Axes {
            name: "rowan-batches",
            title: "Throughput of Batch-KV by bytes of a batch, beside Rowan-KV; 50 % PUT, objects of ZippyDB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| by_sizes(runs, KvOutcome::million_a_second)),
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
        measure: Measure::Time(|runs| by_sizes(runs, |outcome| outcome.put_us(0.5))),
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-batches-wait",
            title: "Throughput of Batch-KV by the longest wait of the first entry of a batch; 50 % PUT, objects of ZippyDB, batches of 256 bytes",
            unit: "Mop/s",
            ..WAITING
        },
        measure: Measure::Time(|runs| by_waits(runs, KvOutcome::million_a_second)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-batches-wait-put",
            title: "Median latency of PUT of the same",
            unit: "us",
            ..WAITING
        },
        measure: Measure::Time(|runs| by_waits(runs, |outcome| outcome.put_us(0.5))),
        picture: Picture::None,
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

const WAITING: Axes = Axes {
    x_title: "us of the longest wait",
    series: &["batch-kv"],
    ..AXES
};

/// A case of Batch-KV with other parameters.
fn batched(x: u32, change: impl Fn(&mut RowanOptions)) -> Case {
    Case {
        series: Replication::Batch.name(),
        x: x.to_string(),
        load: KvLoad::with(Replication::Batch, change),
    }
}

fn by_sizes(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |size: u32| {
        let beside = Case {
            series: Replication::Append.name(),
            x: size.to_string(),
            load: KvLoad::usual(Replication::Append),
        };
        [batched(size, |options| options.batch.0 = size), beside]
    };
    let cases: Vec<Case> = SIZES.into_iter().flat_map(of).collect();
    samples(runs, cases, value)
}

fn by_waits(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |us: u32| batched(us, |options| options.batch.1 = Nanoseconds::from(us) * 1000);
    samples(runs, WAITS.map(of).into(), value)
}
