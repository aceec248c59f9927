//! The ratio of `structures` to RCB with 1, 16 and 1,024 operations in flight, and what decides it.

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{STRUCTURES, outcomes, rounded};
use super::load::{AsymLoad, AsymStore, Cached, Setting};
use super::structures::inserts;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const RATIOS: &str = "asymnvm-ours";
pub(super) const CAUSES: &str = "asymnvm-ours-causes";
pub(super) const LASTING: &str = "asymnvm-ours-lasting";
/// Operations of a run that lasts.
const OPERATIONS: u64 = 16_384;
/// More operations than a run has: nothing is published.
const NEVER: usize = 1 << 20;

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
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
                    has applied it. Unpublished: structures publishes nothing. 128 bytes inline: the NICs of front-ends take so many bytes with the descriptor",
            x_title: "structure",
            unit: "x",
            series: &[
                "1",
                "1, flushed",
                "1, waits",
                "1, both wait",
                "1, unpublished",
                "1, flushed, unpublished",
                "1, 128 bytes inline",
                "1, flushed, 128 bytes inline",
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
    Figure {
        axes: Axes {
            name: LASTING,
            title: "structures in multiples of RCB by operations in flight, as in asymnvm-ours but that runs have 16,384 operations and logs of RCB 1 MiB (2 MiB \
                    for the multi-version B+tree), so that its front-end has to wait for the back-end. Written kept: RCB made the structure itself, and its \
                    cache also keeps what is written. Twice as long: 32,768 operations. Burst: the runs of asymnvm-ours",
            x_title: "structure",
            unit: "x",
            series: &[
                "off, 1",
                "off, 16",
                "off, 1024",
                "off, 1, flushed",
                "off, 16, flushed",
                "off, 1024, flushed",
                "off, 1, written kept",
                "off, 16, written kept",
                "off, 1024, written kept",
                "off, 16, twice as long",
                "off, 1024, twice as long",
                "on, 16",
                "on, 1024",
                "off, 1, written kept, burst",
                "off, 16, written kept, burst",
                "off, 1024, written kept, burst",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(lasting),
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
                setting: Setting::with(ddio),
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

/// A run that lasts until the back-end bounds both contestants.
fn long(load: AsymLoad, operations: u64) -> AsymLoad {
    // A transaction of 1,024 operations takes half of a log at most.
    let log_size = match load.kind {
        StructureKind::MvBTree => 2 << 20,
        _ => 1 << 20,
    };
    AsymLoad {
        setting: Setting {
            log_size,
            ..load.setting
        },
        operations,
        ..load
    }
}

fn lasting(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for series in FIGURES[2].axes.series {
        let parts: Vec<&str> = series.split(", ").collect();
        let ddio = match parts[0] {
            "on" => Ddio::On,
            _ => Ddio::Off,
        };
        let in_flight = parts[1].parse().expect("series name a number");
        let rcb = match parts.contains(&"flushed") {
            true => AsymStore::Flushed(Variant::Rcb),
            false => AsymStore::Published(Variant::Rcb),
        };
        let operations = match parts.contains(&"twice as long") {
            true => 2 * OPERATIONS,
            false => OPERATIONS,
        };
        let pair = |kind: StructureKind| {
            [AsymStore::Ahead, rcb].map(|store| {
                let mut load = AsymLoad {
                    setting: Setting::with(ddio),
                    ..inserts(store, kind, in_flight)
                };
                if store == rcb && parts.contains(&"written kept") {
                    load.cache = Cached::WRITTEN;
                }
                match parts.contains(&"burst") {
                    true => load,
                    false => long(load, operations),
                }
            })
        };
        let mut rows = STRUCTURES.map(|(x, kind)| (x, pair(kind))).to_vec();
        let mut of_rc = pair(StructureKind::HashTable);
        of_rc[1].store = match of_rc[1].store {
            AsymStore::Flushed(_) => AsymStore::Flushed(Variant::Rc),
            _ => AsymStore::Published(Variant::Rc),
        };
        rows.push(("hash-table, RC", of_rc));
        let loads = rows.iter().flat_map(|(_, pair)| pair.clone());
        let outcomes = outcomes(runs, &loads.collect::<Vec<_>>())?;
        for ((x, _), pair) in rows.iter().zip(outcomes.chunks(2)) {
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
    let of =
        |in_flight| changes.map(|(ours, rival, batch)| (in_flight, (ours, rival), batch, None));
    let inline = [rcb, flushed].map(|rival| (1, (AsymStore::Ahead, rival), 1024, Some(128)));
    let several = [16, 1024].into_iter().flat_map(of);
    let columns = of(1).into_iter().chain(inline).chain(several);
    let mut samples = Vec::new();
    for (series, (in_flight, (ours, rival), batch, nic_inline_bytes)) in
        FIGURES[1].axes.series.iter().zip(columns)
    {
        let pair = |(_, kind): (&str, StructureKind)| {
            let of_ours = AsymLoad {
                batch,
                ..inserts(ours, kind, in_flight)
            };
            [of_ours, inserts(rival, kind, in_flight)].map(|mut load| {
                load.setting.nic_inline_bytes = nic_inline_bytes;
                load
            })
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
