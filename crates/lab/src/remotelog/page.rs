//! The benchmark's page in the documentation, and its table for terminals.

use std::fmt::Write as _;

use super::{Measurement, anchors};

const HEAD: &str = "\
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

/// `docs/figures/remotelog.md` for the 72 scenarios on `connectx4-taxonomy`.
pub fn page(measured: &[Measurement]) -> String {
    let mut text = HEAD.to_owned();
    text += "\n## Published numbers beside these\n\n| what | published | here | why |\n| --- | --- | --- | --- |\n";
    for anchor in anchors(measured) {
        let why = anchor.why.split_whitespace().collect::<Vec<_>>().join(" ");
        line(
            &mut text,
            format_args!(
                "| {} | {} | {} | {why} |",
                anchor.what, anchor.published, anchor.ours
            ),
        );
    }
    text += "\n## All scenarios\n\nMean latency of an append in microseconds.\n\n";
    text += "| update | persistence | DDIO | receive buffers | WRITE | WRITE_WITH_IMM | SEND |\n";
    text += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for row in measured.chunks(3) {
        let scenario = row[0].plan.scenario();
        let platform = scenario.platform;
        let cells: Vec<String> = row.iter().map(cell).collect();
        let (update, buffers) = (scenario.update.word(), platform.receive_buffers);
        let cells = cells.join(" | ");
        line(
            &mut text,
            format_args!(
                "| {update} | {} | {} | {buffers} | {cells} |",
                platform.persistence, platform.ddio
            ),
        );
    }
    text += "\nA star marks plans in which the responder's processor takes part.\n";
    text
}

fn cell(measurement: &Measurement) -> String {
    let star = if measurement.plan.is_one_sided() {
        ""
    } else {
        " *"
    };
    format!("{:.2}{star}", measurement.latency_ns_mean / 1000.0)
}

/// A table for people, one line for each measurement.
pub fn table(measured: &[Measurement]) -> String {
    let mut text = String::from(
        "update    persistence  ddio  buffers  operation    mean us   p99 us  round trips  steps\n",
    );
    for measurement in measured {
        let scenario = measurement.plan.scenario();
        let platform = scenario.platform;
        line(
            &mut text,
            format_args!(
                "{:8}  {:11}  {:4}  {:7}  {:9}  {:>9.2}  {:>7.2}  {:>11}  {}",
                scenario.update.word(),
                platform.persistence,
                platform.ddio,
                platform.receive_buffers,
                scenario.operation,
                measurement.latency_ns_mean / 1000.0,
                measurement.latency_ns_p99 as f64 / 1000.0,
                measurement.plan.cost().round_trips,
                measurement.plan.program(),
            ),
        );
    }
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a String takes everything");
}
