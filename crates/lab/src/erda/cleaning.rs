//! Figure 26: mean latency while the log is cleaned; and the bytes that are moved meanwhile, which the paper does not
//! show.

use stonecast_workload::Mix;

use super::cases::{MIXES, OPERATIONS, SERIES, alone, run};
use super::contestant::Design;
use super::run::{Beside, Outcome, RunOptions};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: "erda-26",
            title: "Mean latency while the log is cleaned and while it is not, values of 1024 bytes",
            x_title: "workload",
            unit: "us",
            series: SERIES,
            published: nothing_published,
        },
        measure: Measure::Operations {
            documented: OPERATIONS,
            measure: latencies,
        },
        picture: Picture::Lines,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: "erda-26-moved",
            title: "Bytes that were moved for each byte that was written, while the latencies of erda-26 were measured",
            x_title: "workload",
            unit: "bytes/byte",
            series: SERIES,
            published: nothing_published,
        },
        measure: Measure::Operations {
            documented: OPERATIONS,
            measure: moved,
        },
        picture: Picture::None,
        section: Section::Standard,
    },
];

const VALUE_SIZE: usize = 1024;
/// The factor of keys and operations: a pool of a few segments would be all reserve, and many segments must be cleaned
/// during the measurement.
const FACTOR: u64 = 4;

fn latencies(runs: &mut Runs, operations: u64) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for design in Design::ALL {
        for mix in MIXES {
            for beside in besides(design) {
                samples.push(Sample {
                    series: design.name(),
                    x: format!("{}{}", mix.name(), suffix(*beside)),
                    y: beside_load(runs, operations, design, mix, *beside)?.latency_us,
                });
            }
        }
    }
    Ok(samples)
}

fn moved(runs: &mut Runs, operations: u64) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for mix in MIXES {
        samples.push(Sample {
            series: Design::Kv.name(),
            x: mix.name().to_owned(),
            y: beside_load(runs, operations, Design::Kv, mix, Beside::Cleaning)?.moved,
        });
    }
    Ok(samples)
}

fn beside_load(
    runs: &mut Runs,
    operations: u64,
    design: Design,
    mix: Mix,
    beside: Beside,
) -> Result<Outcome, FigureError> {
    let smaller = alone(design, mix, VALUE_SIZE, operations);
    let options = RunOptions {
        keys: FACTOR * smaller.keys,
        operations: FACTOR * operations,
        beside,
        ..smaller
    };
    let outcome = run(runs, &options)?;
    assert!(
        outcome.moved > 0.0 || design != Design::Kv || beside != Beside::Cleaning,
        "something is cleaned"
    );
    Ok(outcome)
}

/// The loads beside each design. The baselines clean nothing, and Erda's cleaner needs no writer.
fn besides(design: Design) -> &'static [Beside] {
    match design {
        Design::ErdaPublished => &[Beside::Nothing, Beside::Cleaning],
        Design::RedoLogging | Design::ReadAfterWrite => &[Beside::Nothing],
        Design::Kv => &[Beside::Nothing, Beside::Writer, Beside::Cleaning],
    }
}

fn suffix(beside: Beside) -> &'static str {
    match beside {
        Beside::Nothing => "",
        Beside::Writer => " beside a writer",
        Beside::Cleaning => " cleaning",
    }
}
