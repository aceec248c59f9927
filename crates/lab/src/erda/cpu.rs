//! Figures 22 to 25: CPU time of the server by workload.

use super::cases::{MIXES, OPERATIONS, SERIES, alone, run};
use super::contestant::Design;
use crate::papers::{Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section};

/// The figures.
pub(super) static FIGURES: [Figure; 4] = [
    figure(
        "erda-22",
        "CPU time of the server by workload, values of 16 bytes",
        |runs, operations| measure(runs, operations, 16),
    ),
    figure(
        "erda-23",
        "CPU time of the server by workload, values of 64 bytes",
        |runs, operations| measure(runs, operations, 64),
    ),
    figure(
        "erda-24",
        "CPU time of the server by workload, values of 256 bytes",
        |runs, operations| measure(runs, operations, 256),
    ),
    figure(
        "erda-25",
        "CPU time of the server by workload, values of 1024 bytes",
        |runs, operations| measure(runs, operations, 1024),
    ),
];

const fn figure(
    name: &'static str,
    title: &'static str,
    measure: fn(&mut Runs, u64) -> Result<Vec<Sample>, FigureError>,
) -> Figure {
    Figure {
        axes: Axes {
            name,
            title,
            x_title: "workload",
            unit: "ns/op",
            series: SERIES,
            published,
        },
        measure: Measure::Operations {
            documented: OPERATIONS,
            measure,
        },
        picture: Picture::Lines,
        section: Section::Standard,
    }
}

/// The ratios to Erda that the paper states: the means of all four figures.
fn published(series: &str, x: &str) -> Option<f64> {
    let (redo_logging, read_after_write) = match x {
        "b : erda-published" => (20.09, 20.81),
        "a : erda-published" => (1.89, 1.96),
        "update-only : erda-published" => (1.17, 1.11),
        _ => return None,
    };
    match series {
        "redo-logging" => Some(redo_logging),
        "read-after-write" => Some(read_after_write),
        _ => None,
    }
}

fn measure(
    runs: &mut Runs,
    operations: u64,
    value_size: usize,
) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for design in Design::ALL {
        for mix in MIXES {
            let outcome = run(runs, &alone(design, mix, value_size, operations))?;
            samples.push(Sample {
                series: design.name(),
                x: mix.name().to_owned(),
                y: outcome.server_cpu_ns,
            });
        }
    }
    Ok(samples)
}
