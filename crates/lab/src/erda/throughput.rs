//! Figures 18 to 21: throughput by threads.

use stonecast_workload::Mix;

use super::cases::{OPERATIONS, SERIES, alone, in_row, run};
use super::contestant::Design;
use super::run::RunOptions;
use crate::papers::{
    Axes, Figure, FigureError, MEAN, Measure, Picture, Runs, Sample, Section, nothing_published,
};

const THREADS: [u32; 5] = [1, 2, 4, 8, 16];
/// The size of values, which the paper does not name.
const VALUE_SIZE: usize = 64;

/// The figures. The paper states the means over all numbers of threads, but for update-only.
pub(super) static FIGURES: [Figure; 4] = [
    figure(
        "erda-18",
        "Throughput of YCSB C by threads",
        |series, x| in_row(x == MEAN, [96.35, 62.93, 63.28], series),
        |runs, operations| measure(runs, operations, Mix::C),
    ),
    figure(
        "erda-19",
        "Throughput of YCSB B by threads",
        |series, x| in_row(x == MEAN, [92.57, 61.78, 62.57], series),
        |runs, operations| measure(runs, operations, Mix::B),
    ),
    figure(
        "erda-20",
        "Throughput of YCSB A by threads",
        |series, x| in_row(x == MEAN, [79.77, 57.60, 58.32], series),
        |runs, operations| measure(runs, operations, Mix::A),
    ),
    figure(
        "erda-21",
        "Throughput of update-only by threads",
        nothing_published,
        |runs, operations| measure(runs, operations, Mix::UpdateOnly),
    ),
];

const fn figure(
    name: &'static str,
    title: &'static str,
    published: fn(&str, &str) -> Option<f64>,
    measure: fn(&mut Runs, u64) -> Result<Vec<Sample>, FigureError>,
) -> Figure {
    Figure {
        axes: Axes {
            name,
            title,
            x_title: "threads",
            unit: "kop/s",
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

fn measure(runs: &mut Runs, operations: u64, mix: Mix) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for design in Design::ALL {
        for threads in THREADS {
            let options = RunOptions {
                threads,
                ..alone(design, mix, VALUE_SIZE, operations)
            };
            samples.push(Sample {
                series: design.name(),
                x: threads.to_string(),
                y: run(runs, &options)?.operations_per_s / 1e3,
            });
        }
    }
    Ok(samples)
}
