//! The causes of the advantage of Rowan-KV: the same comparison with one respect changed at a time.

use stonecast_published::rowan::Replication;
use stonecast_workload::Distribution;

use super::appends::rounded;
use super::cases::outcomes;
use super::cleaning;
use super::contest::{KvLoad, KvOutcome};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const THROUGHPUT: &str = "rowan-causes";
pub(super) const PUT_MEDIAN: &str = "rowan-causes-put";

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: THROUGHPUT,
            title: "Throughput of Rowan-KV in multiples of a rival's, with one respect changed at a time, or two; 1152 clients",
            published: |series, x| (x == AS_PUBLISHED).then(|| of(series, [1.22, 1.39])),
            ..AXES
        },
        measure: Measure::Time(|runs| {
            measure(runs, |[rowan, rival]| {
                rowan.million_a_second() / rival.million_a_second()
            })
        }),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: PUT_MEDIAN,
            title: "Median latency of PUT of a rival in multiples of Rowan-KV's, with one respect changed at a time, or two",
            published: |series, x| (x == AS_PUBLISHED).then(|| of(series, [1.77, 2.11])),
            ..AXES
        },
        measure: Measure::Time(|runs| {
            measure(runs, |[rowan, rival]| rival.put_us(0.5) / rowan.put_us(0.5))
        }),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "changed",
    unit: "x",
    series: &["rpc-kv", "rwrite-kv"],
    published: nothing_published,
};
pub(super) const AS_PUBLISHED: &str = "nothing";

fn of(series: &str, numbers: [f64; 2]) -> f64 {
    if series == "rpc-kv" {
        numbers[0]
    } else {
        numbers[1]
    }
}

/// A respect in which the run differs from the usual one.
type Change = (&'static str, fn(&mut KvLoad));

const CHANGES: [Change; 13] = [
    (AS_PUBLISHED, |_| {}),
    ("half of the clients", |load| load.clients /= 2),
    ("twice the clients", |load| load.clients *= 2),
    ("keys equally likely", |load| {
        load.keys = Distribution::Uniform;
    }),
    ("messages cost half", |load| {
        load.machines.messages_percent = 50;
    }),
    ("half of the clients, messages cost half", |load| {
        load.clients /= 2;
        load.machines.messages_percent = 50;
    }),
    ("messages cost nothing", |load| {
        load.machines.messages_percent = 0;
    }),
    ("the medium takes half", |load| {
        load.machines.medium_percent = 50;
    }),
    ("the medium takes twice", |load| {
        load.machines.medium_percent = 200;
    }),
    ("the medium takes twice, keys equally likely", |load| {
        load.machines.medium_percent = 200;
        load.keys = Distribution::Uniform;
    }),
    ("the medium takes three times", |load| {
        load.machines.medium_percent = 300;
    }),
    ("five copies", |load| load.store.of_paper().copies = 5),
    ("servers clean meanwhile", |load| {
        cleaning::tight(load.store.of_paper());
    }),
];

fn measure(runs: &mut Runs, ratio: fn([&KvOutcome; 2]) -> f64) -> Result<Vec<Sample>, FigureError> {
    const DESIGNS: [Replication; 3] = [Replication::Append, Replication::Rpc, Replication::Write];
    let loads: Vec<KvLoad> = CHANGES
        .iter()
        .flat_map(|(_, change)| {
            DESIGNS.map(|design| {
                let mut load = KvLoad::usual(design);
                change(&mut load);
                load
            })
        })
        .collect();
    let outcomes = outcomes(runs, &loads)?;
    let of_each = CHANGES.iter().zip(outcomes.chunks(DESIGNS.len()));
    let samples = of_each.flat_map(|((changed, _), outcomes)| {
        let sample = |rival: usize| Sample {
            series: DESIGNS[rival].name(),
            x: (*changed).to_owned(),
            y: rounded(ratio([&outcomes[0], &outcomes[rival]])),
        };
        [sample(1), sample(2)]
    });
    Ok(samples.collect())
}
