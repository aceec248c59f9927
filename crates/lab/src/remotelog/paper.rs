//! The benchmark in the registry of figures: its data, its measurement, and its page.

use std::fmt::Write as _;

use stonecast_fabric_sim::MachineProfile;
use stonecast_persist::{Operation, Scenario, plan_for, scenarios};

use super::anchors::headlines;
use super::figure::{Bar, draw_bars};
use super::{Measurement, measure_simulated};
use crate::papers::{
    Axes, Figure, FigureError, Measure, PageText, Paper, Picture, Points, Runs, Sample, Section,
    no_bars, nothing_published,
};

/// The taxonomy of remote persistence.
pub static PAPER: Paper = Paper {
    name: NAME,
    figures: &[&FIGURES],
    headlines,
    page: PageText {
        introduction: INTRODUCTION,
        heading: "Published numbers beside these",
        columns: ["what", "published", "here", "why"],
        notes: "",
        bars: no_bars,
    },
};

/// The machines of the published numbers.
pub const PUBLISHED: &str = "connectx4-taxonomy";
const NAME: &str = "remotelog";
/// Appends of each scenario of the documents.
const APPENDS: u64 = 1000;

static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: NAME,
        title: "Mean latency of appending 64 bytes by scenario",
        x_title: "scenario",
        unit: "us",
        series: &["WRITE", "WRITE_WITH_IMM", "SEND"],
        published: nothing_published,
    },
    measure: Measure::Operations {
        documented: APPENDS,
        measure,
    },
    picture: Picture::Own(picture),
    section: Section::Own(section),
}];

const INTRODUCTION: &str = "\
# REMOTELOG: what durability costs on each platform

Records of 64 bytes are appended to a log in the persistent memory of another machine, one at a time, as the plan for the
platform says (`stonecast plan`): a *singleton* append writes a record whose checksum marks the tail, a *compound* append
writes the record and then the tail pointer, which never survives without it. Latency runs from the call until the appender
holds the proof that the append is persisted. At the end the log is read as a recovering server reads it.

The machines are those of the taxonomy of remote persistence, as `docs/simulator.md` describes them (`connectx4-taxonomy`).
The same code runs on every provider; time is virtual. A READ stands for FLUSH, as published. The simulated NIC has
ATOMIC_WRITE, which no NIC on the market has; the publication measures a plain WRITE in its place.

`stonecast-lab remotelog --markdown` prints this page, and `--figure` draws the figure; a test compares both.

![Latency of each scenario](remotelog.svg)
";

fn measure(_runs: &mut Runs, appends: u64) -> Result<Vec<Sample>, FigureError> {
    let profile = MachineProfile::by_name(PUBLISHED).expect("the profile is shipped");
    let measured = measure_simulated(profile, appends)?;
    Ok(measured.iter().map(sample).collect())
}

fn sample(measurement: &Measurement) -> Sample {
    let scenario = measurement.plan.scenario();
    Sample {
        series: series(scenario.operation),
        x: place(scenario),
        y: measurement.latency_ns_mean / 1000.0,
    }
}

/// The points of the published scenarios.
pub fn points(measured: &[Measurement]) -> Points {
    let point = |measurement: &Measurement| FIGURES[0].axes.point(sample(measurement));
    Points::from(measured.iter().map(point).collect::<Vec<_>>())
}

/// The name of an operation in figures.
pub(super) fn series(operation: Operation) -> &'static str {
    match operation {
        Operation::Write => "WRITE",
        Operation::WriteImmediate => "WRITE_WITH_IMM",
        Operation::Send => "SEND",
        Operation::Append => "append",
    }
}

/// The place of a scenario on the x axis.
fn place(scenario: &Scenario) -> String {
    let platform = scenario.platform;
    format!(
        "{}, {}, DDIO {}, receive buffers in {}",
        scenario.update.word(),
        platform.persistence,
        platform.ddio,
        platform.receive_buffers
    )
}

/// The measured latency of a published scenario, in microseconds.
pub(super) fn latency(points: &Points, scenario: &Scenario) -> f64 {
    let found = points.at(NAME, series(scenario.operation), &place(scenario));
    found.expect("all scenarios were measured")
}

fn bar(points: &Points, scenario: Scenario) -> Bar {
    let plan = plan_for(&scenario.platform, scenario.operation, scenario.update);
    Bar {
        scenario,
        is_one_sided: plan
            .expect("every published scenario has a plan")
            .is_one_sided(),
        latency_us: latency(points, &scenario),
    }
}

fn picture(points: &Points) -> String {
    let bars: Vec<Bar> = scenarios()
        .into_iter()
        .map(|scenario| bar(points, scenario))
        .collect();
    draw_bars(&format!("sim:{PUBLISHED}"), &bars)
}

fn section(points: &Points) -> String {
    let mut text =
        "\n## All scenarios\n\nMean latency of an append in microseconds.\n\n".to_owned();
    text += "| update | persistence | DDIO | receive buffers | WRITE | WRITE_WITH_IMM | SEND |\n";
    text += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for row in scenarios().chunks(3) {
        let cells: Vec<String> = row
            .iter()
            .map(|scenario| cell(&bar(points, *scenario)))
            .collect();
        let platform = row[0].platform;
        writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            row[0].update.word(),
            platform.persistence,
            platform.ddio,
            platform.receive_buffers,
            cells.join(" | ")
        )
        .expect("a String takes everything");
    }
    text += "\nA star marks plans in which the responder's processor takes part.\n";
    text
}

fn cell(bar: &Bar) -> String {
    let star = if bar.is_one_sided { "" } else { " *" };
    format!("{:.2}{star}", bar.latency_us)
}
