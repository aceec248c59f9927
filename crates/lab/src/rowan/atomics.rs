//! Share-KV by the time that a NIC takes for a read-modify-write: each entry needs one on the word of its backup.

use stonecast_published::rowan::Replication;

use super::cases::{Case, samples};
use super::contest::{KvLoad, KvOutcome};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// The most read-modify-writes of a NIC in a second, in millions, and the time of one. The published text says 10
/// million.
const BOUNDS: [(&str, u64); 4] = [("none", 0), ("20", 50_000), ("10", 100_000), ("5", 200_000)];

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: "rowan-causes-atomics",
            title: "Throughput by the most read-modify-writes that a NIC executes in a second, in millions; 1152 clients, 50 % PUT, objects of ZippyDB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-causes-atomics-put",
            title: "Median latency of PUT of the same",
            unit: "us",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.put_us(0.5))),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "read-modify-writes",
    unit: "",
    series: &["rowan-kv", "share-kv"],
    published: nothing_published,
};

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let case = |(x, atomic_ps): (&str, u64), replication: Replication| {
        let mut load = KvLoad::usual(replication);
        load.machines.atomic_ps = atomic_ps;
        Case {
            series: replication.name(),
            x: x.to_owned(),
            load,
        }
    };
    let shared = BOUNDS.map(|bound| case(bound, Replication::Share));
    // Rowan-KV has no read-modify-writes.
    let rowan = BOUNDS.map(|(x, _)| case((x, 0), Replication::Append));
    samples(runs, rowan.into_iter().chain(shared).collect(), value)
}
