//! The points of each figure.

use std::collections::HashMap;

use serde::Serialize;
use stonecast_fabric_sim::Profile;
use stonecast_workload::Mix;

use super::contestant::{ContestError, Design};
use super::run::{Outcome, RunOptions, bytes_stored, workload};

/// The names of all figures.
pub const FIGURES: [&str; 14] = [
    "erda-14",
    "erda-15",
    "erda-16",
    "erda-17",
    "erda-18",
    "erda-19",
    "erda-20",
    "erda-21",
    "erda-22",
    "erda-23",
    "erda-24",
    "erda-25",
    "erda-26",
    "erda-table1",
];

/// The name for all of them.
pub const ALL: &str = "erda";

/// One point of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The figure, one of [`FIGURES`].
    pub figure: String,
    /// The design.
    pub series: String,
    /// Bytes of a value, threads, workload or operation.
    pub x: String,
    /// The measurement.
    pub y: f64,
    /// Its unit.
    pub unit: &'static str,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Keys stored before.
    pub keys: u64,
    /// Operations of each point.
    pub operations: u64,
}

impl Scale {
    /// As in the documents.
    pub const FULL: Self = Self { keys: 2_000, operations: 3_000 };
}

const MIXES: [Mix; 4] = [Mix::C, Mix::B, Mix::A, Mix::UpdateOnly];
const VALUE_SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];
const THREADS: [u32; 5] = [1, 2, 4, 8, 16];
/// Value size of the figures of throughput, which the paper does not name.
const THROUGHPUT_VALUE_SIZE: usize = 64;
const CLEANING_VALUE_SIZE: usize = 1024;

/// What was measured already: figures share runs.
#[derive(Default)]
pub struct Runs {
    done: HashMap<(Design, &'static str, usize, u32, bool), Outcome>,
}

impl Runs {
    fn run(
        &mut self,
        design: Design,
        mix: Mix,
        value_size: usize,
        threads: u32,
        cleaning: bool,
        scale: Scale,
    ) -> Result<Outcome, ContestError> {
        let name = (design, mix.name(), value_size, threads, cleaning);
        if let Some(outcome) = self.done.get(&name) {
            return Ok(*outcome);
        }
        let profile = profile();
        let Scale { keys, operations } = scale;
        let outcome = workload(&RunOptions { design, profile, mix, value_size, threads, keys, operations, cleaning })?;
        self.done.insert(name, outcome);
        Ok(outcome)
    }
}

/// The machines of the paper.
pub fn profile() -> Profile {
    Profile::by_name("connectx3-erda").expect("the profile is shipped")
}

/// Measures the points of `figure`. `runs` keeps what several figures need.
pub fn points(figure: &str, scale: Scale, runs: &mut Runs) -> Result<Vec<Point>, ContestError> {
    let number = figure.strip_prefix("erda-").and_then(|rest| rest.parse::<usize>().ok());
    let mut points = Vec::new();
    let mut push = |design: Design, x: String, y: f64, unit| {
        points.push(Point { figure: figure.to_owned(), series: design.name().to_owned(), x, y, unit });
    };
    for design in Design::ALL {
        match number {
            Some(number @ 14..=17) => {
                for size in VALUE_SIZES {
                    let outcome = runs.run(design, MIXES[number - 14], size, 1, false, scale)?;
                    push(design, size.to_string(), outcome.latency_us, "us");
                }
            }
            Some(number @ 18..=21) => {
                for threads in THREADS {
                    let outcome = runs.run(design, MIXES[number - 18], THROUGHPUT_VALUE_SIZE, threads, false, scale)?;
                    push(design, threads.to_string(), outcome.operations_per_s / 1e3, "kop/s");
                }
            }
            Some(number @ 22..=25) => {
                for mix in MIXES {
                    let outcome = runs.run(design, mix, VALUE_SIZES[number - 22], 1, false, scale)?;
                    push(design, mix.name().to_owned(), outcome.server_cpu_ns, "ns/op");
                }
            }
            Some(26) => {
                for mix in MIXES {
                    for cleaning in [false, true] {
                        if cleaning && design != Design::ErdaPublished {
                            continue;
                        }
                        let outcome = runs.run(design, mix, CLEANING_VALUE_SIZE, 1, cleaning, scale)?;
                        let x = if cleaning { format!("{} cleaning", mix.name()) } else { mix.name().to_owned() };
                        push(design, x, outcome.latency_us, "us");
                    }
                }
            }
            _ => {
                for size in VALUE_SIZES {
                    let bytes = bytes_stored(design, profile(), size)?;
                    for (operation, bytes) in ["create", "update", "delete"].iter().zip(bytes) {
                        push(design, format!("{operation} {size}"), bytes, "bytes");
                    }
                }
            }
        }
    }
    Ok(points)
}
