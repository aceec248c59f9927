//! Rowan-KV beside the stores of other papers, on persistent memory.

use stonecast_published::clover::CloverOptions;
use stonecast_published::rowan::Replication;

use super::appends::rounded;
use super::cases::{ADDRESSES, Case, outcomes, samples};
use super::contest::{KvLoad, KvOutcome, Store};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const OTHERS: &str = "rowan-others";
pub(super) const VISITING: &str = "rowan-others-visits";
pub(super) const MESSAGES: &str = "rowan-others-messages";
/// The places of [`MESSAGES`].
pub(super) const TOLD: &str = "as it is";
pub(super) const UNTOLD: &str = "no messages behind a PUT";
/// Percent of PUTs.
const PUTS: [u32; 4] = [100, 50, 5, 0];
/// Bytes of the versions whose first copy a memory node has: more than a run writes.
const AREA_SIZE: u64 = 64 << 20;

/// A respect in which clients visit the metadata server: places that they get with a request, and versions that they
/// give back with one.
type Visits = (&'static str, u64, usize);

const VISITS: [Visits; 8] = [
    ("none given back", CloverOptions::PLACES, 0),
    ("16 given back at a time", CloverOptions::PLACES, 16),
    ("4 given back at a time", CloverOptions::PLACES, 4),
    ("2 given back at a time", CloverOptions::PLACES, 2),
    ("given back one by one", CloverOptions::PLACES, 1),
    ("one by one, 8 places got at a time", 8, 1),
    ("one by one, 4 places got at a time", 4, 1),
    ("one by one, 2 places got at a time", 2, 1),
];

/// The figures.
pub(super) static FIGURES: [Figure; 4] = [
    Figure {
        axes: Axes {
            name: OTHERS,
            title: "Throughput by percent of PUTs beside stores of other papers; objects of ZippyDB",
            unit: "Mop/s",
            ..AXES
        },
        measure: Measure::Time(|runs| measure(runs, &PUTS, KvOutcome::million_a_second)),
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
        measure: Measure::Time(|runs| measure(runs, &PUTS[..3], |outcome| outcome.put_us(0.5))),
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: VISITING,
            title: "Throughput of Rowan-KV in multiples of that of the store like Clover, by the visits of its clients to the metadata server; 50 % PUT",
            x_title: "old versions",
            unit: "x",
            series: &["clover-like"],
            ..AXES
        },
        measure: Measure::Time(by_visits),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: MESSAGES,
            title: "Throughput of Rowan-KV in multiples of that of the store like Hermes, and of one that lets readers have an entry as soon as a copy has it; 50 % PUT",
            x_title: "hermes-like",
            unit: "x",
            series: &["hermes-like"],
            published: |_, x| (x == TOLD).then_some(1.98),
        },
        measure: Measure::Time(by_messages),
        picture: Picture::None,
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

pub(super) fn clover(places_each: u64, returned_each: usize) -> CloverOptions {
    CloverOptions {
        addresses: ADDRESSES.to_owned(),
        nodes: 6,
        copies: 3,
        area_size: AREA_SIZE,
        places_each,
        returned_each,
    }
}

/// Rowan-KV in multiples of Clover-like stores whose clients ask the metadata server for places, and give versions
/// back, one by one or many at a time.
fn by_visits(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let rowan = KvLoad::usual(Replication::Append);
    let clovers = VISITS.map(|(_, places_each, returned_each)| KvLoad {
        store: Store::Clover {
            options: clover(places_each, returned_each),
            is_opened: true,
        },
        ..rowan.clone()
    });
    let loads: Vec<KvLoad> = [rowan.clone()].into_iter().chain(clovers).collect();
    let outcomes = outcomes(runs, &loads)?;
    let [rowan, clovers @ ..] = &outcomes[..] else {
        unreachable!("each load has an outcome");
    };
    let sample = |((x, ..), clover): (&Visits, &KvOutcome)| Sample {
        series: "clover-like",
        x: (*x).to_owned(),
        y: rounded(rowan.million_a_second() / clover.million_a_second()),
    };
    Ok(VISITS.iter().zip(clovers).map(sample).collect())
}

/// Rowan-KV in multiples of the store like Hermes, with and without the messages that make an entry visible.
fn by_messages(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let designs = [
        Replication::Append,
        Replication::Hermes,
        Replication::HermesUntold,
    ];
    let outcomes = outcomes(runs, &designs.map(KvLoad::usual))?;
    let rowan = outcomes[0].million_a_second();
    let sample = |(x, hermes): (&str, &KvOutcome)| Sample {
        series: "hermes-like",
        x: x.to_owned(),
        y: rounded(rowan / hermes.million_a_second()),
    };
    Ok([TOLD, UNTOLD]
        .into_iter()
        .zip(&outcomes[1..])
        .map(sample)
        .collect())
}

fn measure(
    runs: &mut Runs,
    percents: &[u32],
    value: fn(&KvOutcome) -> f64,
) -> Result<Vec<Sample>, FigureError> {
    let of = |&put_percent: &u32| {
        let [rowan, hermes] = [Replication::Append, Replication::Hermes].map(KvLoad::usual);
        let [clover, asking] = [true, false].map(|is_opened| KvLoad {
            store: Store::Clover {
                options: clover(CloverOptions::PLACES, 0),
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
    let cases: Vec<Case> = percents.iter().flat_map(of).collect();
    samples(runs, cases, value)
}
