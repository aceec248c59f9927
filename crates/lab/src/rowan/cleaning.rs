//! Throughput with and without cleaning. The logs of the other rivals alone take more segments than the memory with
//! cleaning has.

use stonecast_published::rowan::{Replication, RowanOptions};

use super::cases::{Case, samples};
use super::contest::{KvLoad, KvOutcome};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// Bytes of a segment: small ones, so that a short run fills and cleans many.
pub(super) const SEGMENT_SIZE: u32 = 16 << 10;
/// Segments of a server with room for everything, and of one in which half of the bytes are live.
const PLENTY: u32 = 16_384;
const TIGHT: u32 = 300;

/// Gives a server little memory, and threads that clean it. Each of its logs fills a segment of its own, which is not
/// cleaned: a server of RWrite-KV has one for each worker of another server, in place of the posted buffers.
pub(super) fn tight(options: &mut RowanOptions) {
    let remote = (options.servers - 1) * options.workers;
    options.segments = match options.replication {
        Replication::Write => TIGHT + remote - options.append_buffers,
        _ => TIGHT,
    };
    options.segment_size = SEGMENT_SIZE;
    options.cleaners = 6;
}

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: "rowan-cleaning",
            title: "Throughput without cleaning, and with 6 cleaning threads in a memory of which half is live; 50 % PUT, objects of ZippyDB, segments of 16 KiB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "rowan-cleaning-media",
            title: "GB that a server's medium wrote a second meanwhile",
            unit: "GB/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.media_gb_s)),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "cleaning",
    unit: "",
    series: &["rowan-kv", "rpc-kv"],
    published: nothing_published,
};

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    const DESIGNS: [Replication; 2] = [Replication::Append, Replication::Rpc];
    let of = |(x, segments, cleaners): (&'static str, u32, u32)| {
        DESIGNS.map(|replication| Case {
            series: replication.name(),
            x: x.to_owned(),
            load: KvLoad::with(replication, |options| {
                options.segment_size = SEGMENT_SIZE;
                options.segments = segments;
                options.cleaners = cleaners;
            }),
        })
    };
    let cases: Vec<Case> = [("off", PLENTY, 0), ("on", TIGHT, 6)]
        .into_iter()
        .flat_map(of)
        .collect();
    samples(runs, cases, value)
}
