//! Rowan-KV beside the stores of other papers, on persistent memory.

use stonecast_published::clover::CloverOptions;
use stonecast_published::rowan::Replication;

use super::cases::{ADDRESSES, Case, samples};
use super::contest::{KvLoad, KvOutcome, Store};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const OTHERS: &str = "rowan-others";
/// Percent of PUTs.
const PUTS: [u32; 3] = [100, 50, 5];
/// Bytes of the versions whose first copy a memory node has: more than a run writes.
const AREA_SIZE: u64 = 64 << 20;

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: OTHERS,
            title: "Throughput by percent of PUTs beside stores of other papers; objects of ZippyDB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-others-put",
            title: "Median latency of PUT by percent of PUTs beside stores of other papers",
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
    x_title: "PUT, %",
    unit: "",
    series: &["rowan-kv", "hermes-like", "clover-like", "clover-asking"],
    published: nothing_published,
};

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |put_percent: u32| {
        let [rowan, hermes] = [Replication::Append, Replication::Hermes].map(KvLoad::usual);
        let [clover, asking] = [true, false].map(|is_opened| KvLoad {
            store: Store::Clover {
                options: CloverOptions {
                    addresses: ADDRESSES.to_owned(),
                    nodes: 6,
                    copies: 3,
                    area_size: AREA_SIZE,
                },
                is_opened,
            },
            ..rowan.clone()
        });
        let named = AXES.series.iter().zip([rowan, hermes, clover, asking]);
        named.map(move |(series, load)| Case {
            series,
            x: put_percent.to_string(),
            load: KvLoad {
                put_percent,
                ..load
            },
        })
    };
    let cases: Vec<Case> = PUTS.into_iter().flat_map(of).collect();
    samples(runs, cases, value)
}
