//! The ratio of `structures` to RCB with 1, 16 and 1,024 operations in flight, and what decides it.

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{STRUCTURES, outcomes, rounded};
use super::load::{AsymLoad, AsymStore};
use super::structures::inserts;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const RATIOS: &str = "asymnvm-ours";
pub(super) const CAUSES: &str = "asymnvm-ours-causes";
/// More operations than a run has: nothing is published.
const NEVER: usize = 1 << 20;

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: RATIOS,
            title: "structures in multiples of RCB (the hash table also of RC), by DDIO and operations in flight; oldest: a front-end that waits for the oldest one alone",
            x_title: "structure",
            unit: "x",
            series: &[
                "off, 1",
                "off, 16",
                "off, 1024",
                "off, 1, flushed",
                "off, 16, flushed",
                "off, 1024, flushed",
                "on, 1",
                "on, 16",
                "on, 1024",
                "off, 16, oldest",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(ratios),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "structures in multiples of RCB with one respect changed at a time, by operations in flight; DDIO off. Flushed: a READ behind each \
                    append of RCB. Waits: structures waits for each of its publications. Both wait: RCB waits behind each batch, too, until the back-end \
                    has applied it. Unpublished: structures publishes nothing",
            x_title: "structure",
            unit: "x",
            series: &[
                "1",
                "1, flushed",
                "1, waits",
                "1, both wait",
                "1, unpublished",
                "1, flushed, unpublished",
                "16",
                "16, flushed",
                "16, waits",
                "16, both wait",
                "16, unpublished",
                "16, flushed, unpublished",
                "1024",
                "1024, flushed",
                "1024, waits",
                "1024, both wait",
                "1024, unpublished",
                "1024, flushed, unpublished",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(causes),
        picture: Picture::None,
        section: Section::Standard,
    },
];

fn ratios(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let published: fn(Variant) -> AsymStore = AsymStore::Published;
    let flushed: fn(Variant) -> AsymStore = AsymStore::Flushed;
    let (on, off, ours) = (Ddio::On, Ddio::Off, AsymStore::Ahead);
    let columns = [
        ("off, 1", off, 1, ours, published),
        ("off, 16", off, 16, ours, published),
        ("off, 1024", off, 1024, ours, published),
        ("off, 1, flushed", off, 1, ours, flushed),
        ("off, 16, flushed", off, 16, ours, flushed),
        ("off, 1024, flushed", off, 1024, ours, flushed),
        ("on, 1", on, 1, ours, published),
        ("on, 16", on, 16, ours, published),
        ("on, 1024", on, 1024, ours, published),
        ("off, 16, oldest", off, 16, AsymStore::Sliding, published),
    ];
    let mut rows = STRUCTURES.map(|(x, kind)| (x, kind, Variant::Rcb)).to_vec();
    rows.push(("hash-table, RC", StructureKind::HashTable, Variant::Rc));
    let mut samples = Vec::new();
    for (series, ddio, in_flight, ours, rival) in columns {
        let pair = |kind: StructureKind, variant: Variant| {
            [ours, rival(variant)].map(|store| AsymLoad {
                ddio,
                ..inserts(store, kind, in_flight)
            })
        };
        let pairs = rows
            .iter()
            .flat_map(|(_, kind, variant)| pair(*kind, *variant));
        let outcomes = outcomes(runs, &pairs.collect::<Vec<_>>())?;
        for ((x, ..), pair) in rows.iter().zip(outcomes.chunks(2)) {
            samples.push(Sample {
                series,
                x: (*x).to_owned(),
                y: rounded(pair[0].kops / pair[1].kops),
            });
        }
    }
    Ok(samples)
}

fn causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let flushed = AsymStore::Flushed(Variant::Rcb);
    let waits = AsymStore::Applied(Variant::Rcb);
    // Contestants, and the operations of a publication of `structures`, in the order of the series.
    let changes = [
        (AsymStore::Ahead, rcb, 1024),
        (AsymStore::Ahead, flushed, 1024),
        (AsymStore::Ours, rcb, 1024),
        (AsymStore::Ours, waits, 1024),
        (AsymStore::Ahead, rcb, NEVER),
        (AsymStore::Ahead, flushed, NEVER),
    ];
    let columns = [1, 16, 1024].into_iter().flat_map(|in_flight| {
        changes.map(|(ours, rival, batch)| (in_flight, (ours, rival), batch))
    });
    let mut samples = Vec::new();
    for (series, (in_flight, (ours, rival), batch)) in FIGURES[1].axes.series.iter().zip(columns) {
        let pair = |(_, kind): (&str, StructureKind)| {
            let of_ours = AsymLoad {
                batch,
                ..inserts(ours, kind, in_flight)
            };
            [of_ours, inserts(rival, kind, in_flight)]
        };
        let loads: Vec<AsymLoad> = STRUCTURES.into_iter().flat_map(pair).collect();
        let outcomes = outcomes(runs, &loads)?;
        for ((x, _), pair) in STRUCTURES.iter().zip(outcomes.chunks(2)) {
            samples.push(Sample {
                series,
                x: (*x).to_owned(),
                y: rounded(pair[0].kops / pair[1].kops),
            });
        }
    }
    Ok(samples)
}
