//! Appends and WRITEs while cores of the receiver write to its medium, as in the published experiment.

use super::appends::samples_of;
use super::{Design, Load, Outcome, SENDERS};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const RATE: &str = "rowan-local";
const AMPLIFICATION: &str = "rowan-local-amplification";
const ALONE: &str = "alone";
/// The setting with the number of writing cores that the published receiver has.
pub(super) const BESIDE: &str = "beside 18 local writers";

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    Figure {
        axes: Axes {
            name: RATE,
            title: "Records of 144 senders that are persisted a second, where cores of the receiver persist records of the same size meanwhile, one behind the other, each in a log of its own",
            unit: "Mop/s",
            published: |series, x| (series == "append 64" && x == BESIDE).then_some(54.5),
            ..AXES
        },
        measure: Measure::Time(|runs| samples(runs, Outcome::million_a_second)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-local-writers",
            title: "Records of the receiver's own cores meanwhile",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| samples(runs, Outcome::local_million_a_second)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: AMPLIFICATION,
            title: "Bytes that the medium wrote for each byte that reached it meanwhile, from all writers",
            unit: "bytes/byte",
            ..AXES
        },
        measure: Measure::Time(|runs| samples(runs, Outcome::write_amplification)),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "the medium",
    unit: "",
    series: &["append 64", "write 64", "append 128", "write 128"],
    published: nothing_published,
};
/// Design and bytes of a record of each series.
const SERIES: [(Design, u32); 4] = [
    (Design::Append, 64),
    (Design::Write, 64),
    (Design::Append, 128),
    (Design::Write, 128),
];
/// Numbers of cores of the receiver that write.
const LOCAL: [(&str, u32); 3] = [(ALONE, 0), ("beside 4 local writers", 4), (BESIDE, 18)];

fn samples(runs: &mut Runs, value: fn(&Outcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |(series, (design, size)): (&&'static str, (Design, u32))| {
        let series = *series;
        LOCAL.map(|(x, local)| {
            let load = Load {
                design,
                senders: SENDERS,
                size,
                local,
            };
            (series, x.to_owned(), load)
        })
    };
    let cases = AXES.series.iter().zip(SERIES).flat_map(of).collect();
    samples_of(runs, cases, value)
}
