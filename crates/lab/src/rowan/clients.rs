//! Throughput, latency and write amplification by clients.

use super::cases::{Case, SERIES, of_each_design, samples};
use super::contest::KvOutcome;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const THROUGHPUT: &str = "rowan-clients";
pub(super) const PUT_MEDIAN: &str = "rowan-clients-put";
/// Clients, one operation at a time each. A hardware thread of a client machine runs up to eight of them.
const CLIENTS: [u32; 5] = [144, 288, 576, 1152, 2304];

/// The figures.
pub(super) static FIGURES: [Figure; 6] = [
    Figure {
        axes: Axes {
            name: THROUGHPUT,
            title: "Throughput by clients; 50 % PUT, objects of ZippyDB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: PUT_MEDIAN,
            title: "Median latency of PUT by clients",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.put_us(0.5))),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-clients-put-p99",
            title: "99th percentile of the latency of PUT by clients",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.put_us(0.99))),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-clients-get",
            title: "Median latency of GET by clients",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.get_us(0.5))),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-clients-get-p99",
            title: "99th percentile of the latency of GET by clients",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.get_us(0.99))),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-clients-amplification",
            title: "Bytes that the media wrote for each byte that reached them, by clients",
            unit: "bytes/byte",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.write_amplification)),
        ..FIGURE
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "clients",
    unit: "us",
    series: SERIES,
    published: nothing_published,
};
const FIGURE: Figure = Figure {
    axes: AXES,
    measure: Measure::Time(|_| Ok(Vec::new())),
    picture: Picture::Lines,
    section: Section::Standard,
};

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |clients: u32| of_each_design(&clients.to_string(), |load| load.clients = clients);
    let cases: Vec<Case> = CLIENTS.into_iter().flat_map(of).collect();
    samples(runs, cases, value)
}
