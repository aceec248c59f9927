//! The headlines by the measured time: points of 0.3 ms are no steady state.

use stonecast_base::Nanoseconds;
use stonecast_published::rowan::Replication;

use super::appends::rounded;
use super::cases::outcomes;
use super::contest::{KvLoad, KvOutcome, MEASURED_NS};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// The figures.
pub(super) static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: "rowan-causes-window",
        title: "Throughput of Rowan-KV in multiples of a rival's, and median latency of PUT of the rival in multiples of Rowan-KV's, by the measured time; 1152 clients, 50 % PUT",
        x_title: "measured ms",
        unit: "x",
        series: &[
            "rpc-kv, throughput",
            "rwrite-kv, throughput",
            "rpc-kv, median PUT",
            "rwrite-kv, median PUT",
        ],
        published: nothing_published,
    },
    measure: Measure::Time(measure),
    picture: Picture::None,
    section: Section::Standard,
}];

/// The measured times: that of the other figures, and five times as long.
const WINDOWS: [(&str, Nanoseconds); 2] = [("0.3", MEASURED_NS), ("1.5", 5 * MEASURED_NS)];

fn measure(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    const DESIGNS: [Replication; 3] = [Replication::Append, Replication::Rpc, Replication::Write];
    let of = |(_, measured_ns): &(&str, Nanoseconds)| {
        DESIGNS.map(|design| KvLoad {
            measured_ns: *measured_ns,
            ..KvLoad::usual(design)
        })
    };
    let loads: Vec<KvLoad> = WINDOWS.iter().flat_map(of).collect();
    let outcomes = outcomes(runs, &loads)?;
    let of_window = |((window, _), outcomes): (&(&str, Nanoseconds), &[KvOutcome])| {
        beside_rowan(window, outcomes)
    };
    let of_each = WINDOWS.iter().zip(outcomes.chunks(DESIGNS.len()));
    Ok(of_each.flat_map(of_window).collect())
}

/// Throughput and median PUT of Rowan-KV beside those of its two rivals: the outcomes of the three at `x`.
pub(super) fn beside_rowan(x: &str, outcomes: &[KvOutcome]) -> Vec<Sample> {
    let [rowan, rpc, write] = outcomes else {
        unreachable!("each design has an outcome");
    };
    let throughput = |rival: &KvOutcome| rowan.million_a_second() / rival.million_a_second();
    let median = |rival: &KvOutcome| rival.put_us(0.5) / rowan.put_us(0.5);
    let values = [
        throughput(rpc),
        throughput(write),
        median(rpc),
        median(write),
    ];
    let series = FIGURES[0].axes.series.iter();
    let sample = |(series, value): (&&'static str, f64)| Sample {
        series,
        x: x.to_owned(),
        y: rounded(value),
    };
    series.zip(values).map(sample).collect()
}
