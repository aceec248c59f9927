//! What decides the numbers of Table 2 beside program and cache: nodes that are known, lines of a node that are READ
//! one after the other, the number of keys.

use stonecast_base::Nanoseconds;
use stonecast_media::PersistenceDomain;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{Case, STRUCTURES, outcomes, program_ns, samples};
use super::load::{AsymLoad, AsymStore, Cached};
use super::structures::{self, inserts};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const LAYOUTS: &str = "asymnvm-layouts";
/// Keys of the columns with more of them.
const MANY: u64 = 65_536;
const MANY_KEYS: &str = "65,536 keys";

/// The figures.
pub(super) static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: LAYOUTS,
        title: "Inserts a second with one respect changed at a time, or those that are named; 1 in flight where nothing else is said, uniform keys, all cached, \
                DDIO off. No write-backs: caches of processors survive a power cut. Knows all: the front-end made the structure itself, and READs nothing \
                that it has made or read. 192 to 32 bytes: a READ takes so many at most, so the parts of a node are READ one after the other. 65,536 keys: so \
                many are loaded (hash table, and trees without versions). A tenth: the cache has room for a tenth. Program of a batch: the time by which \
                the published symmetric-b is slower than the measured one",
        x_title: "structure",
        unit: "kop/s",
        series: &[
            "symmetric: published",
            "symmetric",
            "symmetric, no write-backs",
            "naive: published",
            "naive",
            "naive, knows all",
            "naive, knows all, 2 in flight",
            "naive, 192 bytes",
            "naive, 128 bytes",
            "naive, 64 bytes",
            "naive, 32 bytes",
            "naive, 65,536 keys",
            "naive, 65,536 keys, 64 bytes",
            "r: published",
            "r",
            "r, knows all",
            "r, knows all, 2 in flight",
            "r, 192 bytes",
            "r, 128 bytes",
            "r, 64 bytes",
            "r, 32 bytes",
            "r, 65,536 keys",
            "r, 65,536 keys, 64 bytes",
            "rc: published",
            "rc",
            "rc, a tenth",
            "rc, a tenth, 192 bytes",
            "rc, a tenth, 64 bytes",
            "rcb: published",
            "rcb",
            "rcb, knows all",
            "rcb, knows all, 2 in flight",
            "rcb, knows all, 3 in flight",
            "rcb, knows all, 16 in flight",
            "rcb, program of a batch",
            "rcb, program of a batch, 16 in flight",
            "rcb, program of a batch, a tenth",
            "rcb, program of a batch, a tenth, 16 in flight",
        ],
        published: nothing_published,
    },
    measure: Measure::Time(measure),
    picture: Picture::None,
    section: Section::Standard,
}];

fn measure(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let symmetric = AsymStore::Published(Variant::SymmetricB);
    let loads = STRUCTURES.map(|(_, kind)| inserts(symmetric, kind, 1));
    let measured = outcomes(runs, &loads)?;
    let (mut published, mut cases) = (Vec::new(), Vec::new());
    for series in FIGURES[0].axes.series {
        let (variant, changes) = series.split_at(series.find([',', ':']).unwrap_or(series.len()));
        for ((x, kind), outcome) in STRUCTURES.into_iter().zip(&measured) {
            let x = x.to_owned();
            let of_paper = |variant: &str| structures::published(variant, &x);
            if changes == ": published" {
                let sample = |y| Sample {
                    series,
                    x: x.clone(),
                    y,
                };
                published.extend(of_paper(variant).map(sample));
                continue;
            }
            if changes.contains(MANY_KEYS) && (kind.is_versioned() || !kind.has_keys()) {
                continue;
            }
            let load = changed((variant, kind), changes, || {
                program_ns(of_paper("symmetric-b"), outcome.kops)
            });
            cases.push(Case { series, x, load });
        }
    }
    published.extend(samples(runs, cases, |outcome| outcome.kops)?);
    Ok(published)
}

/// The load of a series, whose name names the changes.
fn changed(
    (variant, kind): (&str, StructureKind),
    changes: &str,
    program_ns: impl Fn() -> Nanoseconds,
) -> AsymLoad {
    let is_named = |of: &&Variant| of.name() == variant;
    let store = Variant::ALL.iter().find(is_named);
    let store = AsymStore::Published(*store.expect("series name variants"));
    let mut load = inserts(store, kind, 1);
    if changes.contains(MANY_KEYS) {
        load.keys.loaded = MANY;
    }
    if changes.contains("knows all") {
        load.cache = Cached::WRITTEN;
    }
    if changes.contains("a tenth") {
        load.cache = Cached::TENTH;
    }
    if changes.contains("no write-backs") {
        load.setting.domain = PersistenceDomain::Mhp;
    }
    if changes.contains("program of a batch") {
        load.program_ns = program_ns();
    }
    for change in changes.split(", ") {
        if let Some(in_flight) = change.strip_suffix(" in flight") {
            load.in_flight = in_flight.parse().expect("a number in front of the words");
        }
        if let Some(size) = change.strip_suffix(" bytes") {
            load.setting.read_size_max = size.parse().expect("a number in front of the word");
        }
    }
    load
}
