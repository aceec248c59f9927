//! The points of each figure.

use std::collections::HashMap;

use serde::Serialize;
use stonecast_fabric_sim::MachineProfile;
use stonecast_workload::Mix;

use super::contestant::{ContestError, Design};
use super::run::{Beside, Outcome, RunOptions, bytes_stored, workload};

/// The names of all figures.
pub const FIGURES: [&str; 15] = [
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
    MOVED,
    "erda-table1",
];

/// A figure that is not in the paper: the bytes that the direct store moved during the measurement of `erda-26`.
const MOVED: &str = "erda-26-moved";

/// The name of all figures together.
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
    /// The unit.
    pub unit: &'static str,
}

/// The amount to measure.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Keys stored before the measurement.
    pub keys: u64,
    /// Operations of each point.
    pub operations: u64,
}

impl Scale {
    /// The scale of the documents.
    pub const FULL: Self = Self {
        keys: 2_000,
        operations: 3_000,
    };
}

const MIXES: [Mix; 4] = [Mix::C, Mix::B, Mix::A, Mix::UpdateOnly];
const VALUE_SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];
const THREADS: [u32; 5] = [1, 2, 4, 8, 16];
/// The size of values in the figures of throughput, which the paper does not name.
const THROUGHPUT_VALUE_SIZE: usize = 64;
const CLEANING_VALUE_SIZE: usize = 1024;
/// The factor of keys and operations in figures of cleaning: a pool of a few segments would be all reserve, and many
/// segments must be cleaned during the measurement.
const CLEANING_FACTOR: u64 = 4;

/// The completed runs, which figures share.
#[derive(Default)]
pub struct Runs {
    done: HashMap<RunName, Outcome>,
}

/// Design, workload, bytes of a value, threads, load beside them, keys, operations.
type RunName = (Design, &'static str, usize, u32, Beside, u64, u64);

impl Runs {
    fn run(
        &mut self,
        design: Design,
        mix: Mix,
        value_size: usize,
        threads: u32,
        beside: Beside,
        scale: Scale,
    ) -> Result<Outcome, ContestError> {
        let name = (
            design,
            mix.name(),
            value_size,
            threads,
            beside,
            scale.keys,
            scale.operations,
        );
        if let Some(outcome) = self.done.get(&name) {
            return Ok(*outcome);
        }
        let profile = profile();
        let Scale { keys, operations } = scale;
        let outcome = workload(&RunOptions {
            design,
            profile,
            mix,
            value_size,
            threads,
            keys,
            operations,
            beside,
        })?;
        assert!(
            outcome.moved > 0.0 || design != Design::Kv || beside != Beside::Cleaning,
            "something is cleaned"
        );
        self.done.insert(name, outcome);
        Ok(outcome)
    }
}

/// The machines of the paper.
pub fn profile() -> MachineProfile {
    MachineProfile::by_name("connectx3-erda").expect("the profile is shipped")
}

/// The loads beside each design in figures of cleaning. The baselines clean nothing, and Erda's cleaner needs no
/// writer.
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

/// Measures the points of `figure`. `runs` keeps the runs that several figures need.
pub fn points(figure: &str, scale: Scale, runs: &mut Runs) -> Result<Vec<Point>, ContestError> {
    let number = figure
        .strip_prefix("erda-")
        .and_then(|rest| rest.parse::<usize>().ok());
    let cleaning_scale = Scale {
        keys: CLEANING_FACTOR * scale.keys,
        operations: CLEANING_FACTOR * scale.operations,
    };
    let mut points = Vec::new();
    let mut push = |design: Design, x: String, y: f64, unit| {
        points.push(Point {
            figure: figure.to_owned(),
            series: design.name().to_owned(),
            x,
            y,
            unit,
        });
    };
    for design in Design::ALL {
        match number {
            Some(number @ 14..=17) => {
                for size in VALUE_SIZES {
                    let outcome =
                        runs.run(design, MIXES[number - 14], size, 1, Beside::Nothing, scale)?;
                    push(design, size.to_string(), outcome.latency_us, "us");
                }
            }
            Some(number @ 18..=21) => {
                for threads in THREADS {
                    let outcome = runs.run(
                        design,
                        MIXES[number - 18],
                        THROUGHPUT_VALUE_SIZE,
                        threads,
                        Beside::Nothing,
                        scale,
                    )?;
                    push(
                        design,
                        threads.to_string(),
                        outcome.operations_per_s / 1e3,
                        "kop/s",
                    );
                }
            }
            Some(number @ 22..=25) => {
                for mix in MIXES {
                    let outcome = runs.run(
                        design,
                        mix,
                        VALUE_SIZES[number - 22],
                        1,
                        Beside::Nothing,
                        scale,
                    )?;
                    push(
                        design,
                        mix.name().to_owned(),
                        outcome.server_cpu_ns,
                        "ns/op",
                    );
                }
            }
            Some(26) => {
                for mix in MIXES {
                    for beside in besides(design) {
                        let outcome =
                            runs.run(design, mix, CLEANING_VALUE_SIZE, 1, *beside, cleaning_scale)?;
                        push(
                            design,
                            format!("{}{}", mix.name(), suffix(*beside)),
                            outcome.latency_us,
                            "us",
                        );
                    }
                }
            }
            _ if figure == MOVED => {
                for mix in MIXES.into_iter().filter(|_| design == Design::Kv) {
                    let outcome = runs.run(
                        design,
                        mix,
                        CLEANING_VALUE_SIZE,
                        1,
                        Beside::Cleaning,
                        cleaning_scale,
                    )?;
                    push(design, mix.name().to_owned(), outcome.moved, "bytes/byte");
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
