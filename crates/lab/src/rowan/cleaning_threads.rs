//! `kv` beside Rowan-KV while both clean, over a time in which each server writes about as much as its memory holds.

use stonecast_base::Nanoseconds;
use stonecast_published::rowan::Replication;

use super::cases::{Case, samples};
use super::cleaning;
use super::contest::{KvLoad, KvOutcome, Store};
use super::kv::KvOptions;
use super::threads::{self, published};
use crate::papers::{Axes, Figure, FigureError, Measure, Picture, Runs, Sample};

/// Bytes of a segment of `kv`: the fewest that it has. Rowan-KV has those of the figures of its cleaning.
const KV_SEGMENT_SIZE: u64 = 256 << 10;
/// MiB of the memory of a server: room for everything, and less and less room for what is dead.
const MEMORIES: [u32; 4] = [128, 10, 8, 7];
/// Clients, and their threads. Each thread has a lease on a segment of each node of `kv`.
const CLIENTS: u32 = 48;
const CLIENT_THREADS: u32 = 4;
/// The time in which memories are filled, and the measured time.
const WARM_UP_NS: Nanoseconds = 15_000_000;
const MEASURED_NS: Nanoseconds = 10_000_000;

pub(super) const THROUGHPUT: &str = "rowan-threads-cleaning";

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    Figure {
        axes: Axes {
            name: THROUGHPUT,
            title: "Throughput by the memory of a server, of which 2 to 3 MiB are live and 128 MiB need no cleaning; one worker, digest, control and cleaning thread for each server of Rowan-KV, one thread for each of `kv`; PUTs alone, 48 clients",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::million_a_second)),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-threads-cleaning-media",
            title: "Bytes that the media of all servers wrote for each PUT of the same",
            unit: "bytes",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, KvOutcome::written_a_put)),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-threads-cleaning-busy",
            title: "Part of its time in which the worker thread of a server works in the same; that of `kv` cleans, too",
            unit: "%",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, |outcome| outcome.workers_busy * 100.0)),
        ..FIGURE
    },
];

const FIGURE: Figure = Figure {
    picture: Picture::None,
    ..threads::FIGURE
};

const AXES: Axes = Axes {
    x_title: "MiB",
    series: &["rowan-kv", "kv"],
    ..threads::AXES
};

fn measure(runs: &mut Runs, value: fn(&KvOutcome) -> f64) -> Result<Vec<Sample>, FigureError> {
    let of = |mib: u32| {
        let bytes = u64::from(mib) << 20;
        let mut published = published(Replication::Append, 3);
        let options = published.of_paper();
        options.segment_size = cleaning::SEGMENT_SIZE;
        options.segments = (bytes / u64::from(cleaning::SEGMENT_SIZE)) as u32;
        options.cleaners = 1;
        let kv = KvOptions {
            segments: bytes / KV_SEGMENT_SIZE,
            segment_size: KV_SEGMENT_SIZE,
            ..KvOptions::USUAL
        };
        let stores = [("rowan-kv", published), ("kv", Store::Kv(kv))];
        stores.map(|(series, store)| Case {
            series,
            x: mib.to_string(),
            load: KvLoad {
                put_percent: 100,
                clients: CLIENTS,
                threads: CLIENT_THREADS,
                warm_up_ns: WARM_UP_NS,
                measured_ns: MEASURED_NS,
                ..KvLoad::of_threads(store)
            },
        })
    };
    samples(runs, MEMORIES.into_iter().flat_map(of).collect(), value)
}
