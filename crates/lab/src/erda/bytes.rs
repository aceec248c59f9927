//! Table 1: bytes stored to persistent memory by operation and value size.

use super::cases::{SERIES, VALUE_SIZES, profile};
use super::contestant::Design;
use super::run::{KEY_SIZE, bytes_stored};
use crate::papers::{Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section};

/// The operations of the table.
pub(super) const OPERATIONS: [&str; 3] = ["create", "update", "delete"];

/// The table. Each operation is done a fixed number of times.
pub(super) static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: "erda-table1",
        title: "Bytes stored to persistent memory by operation and value size",
        x_title: "operation, value size",
        unit: "bytes",
        series: SERIES,
        published,
    },
    measure: Measure::Operations {
        documented: super::cases::OPERATIONS,
        measure,
    },
    picture: Picture::None,
    section: Section::Standard,
}];

/// The bytes that the paper's formulas give.
fn published(series: &str, x: &str) -> Option<f64> {
    let (operation, size) = x.split_once(' ')?;
    let row = OPERATIONS.iter().position(|one| *one == operation)?;
    let (key, pair) = (KEY_SIZE as f64, KEY_SIZE as f64 + size.parse::<f64>().ok()?);
    let bytes = match series {
        "erda-published" => [key + 10.0 + pair, 9.0 + pair, key + 9.0],
        "redo-logging" | "read-after-write" => {
            [key + 12.0 + 2.0 * pair, 4.0 + 2.0 * pair, key + 8.0]
        }
        _ => return None,
    };
    Some(bytes[row])
}

fn measure(_runs: &mut Runs, _operations: u64) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for design in Design::ALL {
        for size in VALUE_SIZES {
            let bytes = bytes_stored(design, profile(), size)?;
            for (operation, bytes) in OPERATIONS.iter().zip(bytes) {
                samples.push(Sample {
                    series: design.name(),
                    x: format!("{operation} {size}"),
                    y: bytes,
                });
            }
        }
    }
    Ok(samples)
}
