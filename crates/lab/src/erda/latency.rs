//! Figures 14 to 17: mean latency by value size.

use stonecast_workload::Mix;

use super::cases::{OPERATIONS, SERIES, VALUE_SIZES, alone, in_row, run};
use super::contestant::Design;
use crate::papers::{Axes, Figure, FigureError, MEAN, Measure, Picture, Runs, Sample, Section};

/// The figures. The paper states the means over all value sizes.
pub(super) static FIGURES: [Figure; 4] = [
    figure(
        "erda-14",
        "Mean latency of YCSB C by value size in bytes",
        |series, x| in_row(x == MEAN, [62.84, 92.7, 92.48], series),
        |runs, operations| measure(runs, operations, Mix::C),
    ),
    figure(
        "erda-15",
        "Mean latency of YCSB B by value size in bytes",
        |series, x| in_row(x == MEAN, [62.76, 94.71, 94.25], series),
        |runs, operations| measure(runs, operations, Mix::B),
    ),
    figure(
        "erda-16",
        "Mean latency of YCSB A by value size in bytes",
        |series, x| in_row(x == MEAN, [74.64, 100.0, 100.18], series),
        |runs, operations| measure(runs, operations, Mix::A),
    ),
    figure(
        "erda-17",
        "Mean latency of update-only by value size in bytes",
        |series, x| in_row(x == MEAN, [102.1, 103.89, 105.47], series),
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
            x_title: "value size, bytes",
            unit: "us",
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
        for size in VALUE_SIZES {
            let outcome = run(runs, &alone(design, mix, size, operations))?;
            samples.push(Sample {
                series: design.name(),
                x: size.to_string(),
                y: outcome.latency_us,
            });
        }
    }
    Ok(samples)
}
