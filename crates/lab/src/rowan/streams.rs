//! Appends by streams: rate and write amplification from one sender to more than the medium's buffer has blocks.

use super::{Design, Load, Outcome, SENDERS, appends};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: "rowan-streams",
            title: "Records persisted a second by streams, for records of each size",
            unit: "Mop/s",
            published: |series, x| at_all_senders(series, x, &[("append 64", 54.5)]),
            ..AXES
        },
        measure: Measure::Time(|runs| samples(runs, Outcome::million_a_second)),
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-streams-amplification",
            title: "Bytes that the medium wrote for each byte that reached it, by streams",
            unit: "bytes/byte",
            published: |series, x| {
                at_all_senders(series, x, &[("write 64", 2.48), ("write 128", 1.58)])
            },
            ..AXES
        },
        measure: Measure::Time(|runs| samples(runs, Outcome::write_amplification)),
        picture: Picture::Lines,
        section: Section::Standard,
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "streams",
    unit: "",
    series: &[
        "append 64",
        "write 64",
        "append 128",
        "write 128",
        "append 256",
        "write 256",
    ],
    published: nothing_published,
};
/// Design and bytes of a record of each series.
const SERIES: [(Design, u32); 6] = [
    (Design::Append, 64),
    (Design::Write, 64),
    (Design::Append, 128),
    (Design::Write, 128),
    (Design::Append, 256),
    (Design::Write, 256),
];
/// A stream is a thread with its connection and, for WRITEs, its log.
const STREAMS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, SENDERS, 256];

/// A number that the paper has for all its senders.
fn at_all_senders(series: &str, x: &str, numbers: &[(&str, f64)]) -> Option<f64> {
    let of_series = numbers.iter().find(|(name, _)| *name == series)?;
    (x == SENDERS.to_string()).then_some(of_series.1)
}

fn samples(runs: &mut Runs, value: fn(&Outcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |(series, (design, size)): (&&'static str, (Design, u32))| {
        let (series, load) = (*series, move |senders| Load {
            design,
            senders,
            size,
            local: 0,
        });
        STREAMS.map(|senders| (series, senders.to_string(), load(senders)))
    };
    let cases = AXES.series.iter().zip(SERIES).flat_map(of).collect();
    appends::samples_of(runs, cases, value)
}
