//! The benchmark's table for terminals.

use std::fmt::Write as _;

use super::Measurement;

/// A table for people, one line for each measurement.
pub fn table(measured: &[Measurement]) -> String {
    let mut text = String::from(
        "update    persistence  ddio  buffers  operation    mean us   p99 us  round trips  steps\n",
    );
    for measurement in measured {
        let scenario = measurement.plan.scenario();
        let platform = scenario.platform;
        writeln!(
            text,
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
        )
        .expect("a String takes everything");
    }
    text
}
