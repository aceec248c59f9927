//! Batch sizes (Figure 7), and what decides the gain of a batch.

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{Case, STRUCTURES, outcomes, program_ns, rounded, samples, under, with_ddio};
use super::load::{AsymLoad, AsymStore, Cached};
use super::structures::{self, inserts};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const BATCHES: &str = "asymnvm-batches";
pub(super) const CAUSES: &str = "asymnvm-batches-causes";
/// The column of [`CAUSES`] without a change.
pub(super) const UNCHANGED: &str = "as above";
/// Operations of a batch.
const SIZES: [usize; 7] = [1, 4, 16, 64, 256, 1024, 4096];
/// Three quarters of them are measured: a batch of the largest size.
const OPERATIONS: u64 = 5464;

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    OFF,
    with_ddio(
        OFF,
        "asymnvm-batches-on",
        "The figure asymnvm-batches with DDIO on",
        |runs| measure(runs, Ddio::On),
    ),
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "What RCB gains by batches of 1,024 over batches of 1, with one respect changed at a time; DDIO off; the program's time as in \
                    asymnvm-program",
            x_title: "changed",
            unit: "%",
            ..OFF.axes
        },
        measure: Measure::Time(causes),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const OFF: Figure = Figure {
    axes: Axes {
        name: BATCHES,
        title: "Inserts a second of RCB by operations of a batch (Figure 7), all of them in flight; uniform keys, room for a tenth in the cache, DDIO off",
        x_title: "operations of a batch",
        unit: "kop/s",
        series: &["skip-list", "bst", "b-tree", "mv-bst", "mv-b-tree"],
        published: nothing_published,
    },
    measure: Measure::Time(|runs| measure(runs, Ddio::Off)),
    picture: Picture::Lines,
    section: Section::Standard,
};

/// Inserts in batches, all of a batch in flight.
fn batched(kind: StructureKind, batch: usize) -> AsymLoad {
    AsymLoad {
        batch,
        in_flight: batch,
        cache: Cached::TENTH,
        operations: OPERATIONS,
        ..AsymLoad::inserts(AsymStore::Published(Variant::Rcb), kind)
    }
}

fn measure(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let of = |(series, kind)| {
        SIZES.map(|batch| Case {
            series,
            x: batch.to_string(),
            load: batched(kind, batch),
        })
    };
    let cases = STRUCTURES.into_iter().skip(3).flat_map(of).collect();
    samples(runs, under(ddio, cases), |outcome| outcome.kops)
}

fn causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for (series, kind) in STRUCTURES.into_iter().skip(3) {
        let symmetric = inserts(AsymStore::Published(Variant::Symmetric), kind, 1);
        let measured = outcomes(runs, &[symmetric])?[0].kops;
        let program_ns = program_ns(structures::published("symmetric", series), measured);
        type Change = fn(&mut AsymLoad, u64);
        let changes: [(&str, Change); 5] = [
            (UNCHANGED, |_, _| {}),
            ("all cached", |load, _| load.cache = Cached::ALL),
            ("at most 16 in flight", |load, _| {
                load.in_flight = load.in_flight.min(16);
            }),
            ("the program's time", |load, program_ns| {
                load.program_ns = program_ns;
            }),
            ("all of these", |load, program_ns| {
                load.cache = Cached::ALL;
                load.in_flight = load.in_flight.min(16);
                load.program_ns = program_ns;
            }),
        ];
        for (x, change) in changes {
            let loads = [1, 1024].map(|batch| {
                let mut load = batched(kind, batch);
                change(&mut load, program_ns);
                load
            });
            let outcomes = outcomes(runs, &loads)?;
            samples.push(Sample {
                series,
                x: x.to_owned(),
                y: rounded((outcomes[1].kops / outcomes[0].kops - 1.0) * 100.0),
            });
        }
    }
    Ok(samples)
}
