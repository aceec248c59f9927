//! A plan for people: two columns of steps, their cost, the reason for each step, and the assumptions of the plan.
//!
//! ```text
//!   write, compound, on dmp, DDIO off, receive buffers in dram
//!      requester             responder
//!   1  rq.write(a)                               puts a into its place ...
//!   2  rq.flush                                  ...
//! ```

use std::fmt::Write as _;

use stonecast_persist::litmus::{Assumption, Proof};
use stonecast_persist::{
    Cost, Declaration, Party, Plan, PlatformProfile, Scenario, Step, Update, plan_for,
};

use crate::output::wrap;

/// Columns before the text of an item.
const INDENT: &str = "       ";

/// The scenario in words.
pub fn title(scenario: &Scenario) -> String {
    let Scenario {
        platform,
        operation,
        update,
    } = scenario;
    let update = match update {
        Update::Single => "single update a",
        Update::Compound { large: false } => "a, then b of at most 8 bytes",
        Update::Compound { large: true } => "a, then b of any size",
    };
    let mut more = String::new();
    if platform.transport != stonecast_persist::Transport::InfiniBand {
        more += &format!(", {}", platform.transport);
    }
    if platform.flush != stonecast_persist::FlushKind::Read {
        more += &format!(", {} flush", platform.flush);
    }
    if platform.relaxed_ordering {
        more += ", relaxed ordering";
    }
    let persistence = platform.persistence;
    format!(
        "{operation}: {update}, on {persistence}, DDIO {}, receive buffers in {}{more}",
        platform.ddio, platform.receive_buffers
    )
}

/// A plan with its reasons.
pub fn plan(plan: &Plan, proof: &Proof, assumptions: &[Assumption]) -> String {
    let mut text = format!("{}\n\n", title(plan.scenario()));
    put_steps(&mut text, plan);
    put(&mut text, format_args!("\ncost: {}", cost(plan.cost())));
    let proven = if proof.sound { "sound" } else { "NOT SOUND" };
    put(
        &mut text,
        format_args!(
            "proof: {proven} in all {} states and {} power cuts of the litmus model",
            proof.states, proof.crashes
        ),
    );
    put_reasons(&mut text, plan, proof);
    put_assumptions(&mut text, assumptions);
    text
}

/// The steps in two columns, one for each party.
fn put_steps(text: &mut String, plan: &Plan) {
    let width = |party| {
        plan.program()
            .of(party)
            .map(|step| step.to_string().len())
            .max()
            .unwrap_or(0)
            .max(9)
    };
    let (requester, responder) = (width(Party::Requester), width(Party::Responder));
    put(
        text,
        format_args!(
            "     {:requester$}  {:responder$}",
            "requester", "responder"
        ),
    );
    for (index, step) in plan.steps().iter().enumerate() {
        let number = index + 1;
        let (left, right) = match step.party() {
            Party::Requester => (step.to_string(), String::new()),
            Party::Responder => (String::new(), step.to_string()),
        };
        put(
            text,
            format_args!("{number:>3}  {left:requester$}  {right:responder$}"),
        );
    }
}

fn put_reasons(text: &mut String, plan: &Plan, proof: &Proof) {
    *text += "\nwhy each step\n";
    for (index, (reason, necessity)) in plan.reasons().iter().zip(&proof.necessary).enumerate() {
        wrap(
            text,
            INDENT,
            &format!("{:>3}  {}: ", index + 1, necessity.step),
            reason,
        );
        match necessity.counterexample.as_slice() {
            [] => wrap(text, INDENT, "     ", "without it nothing breaks"),
            run => wrap(
                text,
                INDENT,
                "     ",
                &format!("without it: {}", run.join(", ")),
            ),
        }
    }
}

fn put_assumptions(text: &mut String, assumptions: &[Assumption]) {
    *text += "\nwhat is assumed of the platform\n";
    if assumptions.is_empty() {
        wrap(
            text,
            INDENT,
            "     ",
            "nothing: the plan is sound whatever the platform is",
        );
    }
    for assumption in assumptions {
        let Assumption {
            axis,
            declared,
            otherwise,
            counterexample,
        } = assumption;
        let run = counterexample.join(", ");
        wrap(
            text,
            INDENT,
            "     ",
            &format!("{axis} = {declared}; were it {otherwise}: {run}"),
        );
    }
}

/// All scenarios in one table: a row for each platform and update, a column for each operation. A cell says in which of
/// the planner's ways the update becomes durable, and after how many round trips.
pub fn overview(scenarios: &[Scenario]) -> String {
    let mut text = String::new();
    let row = |text: &mut String, cells: [&str; 7]| {
        let [update, persistence, ddio, buffers, cells @ ..] = cells;
        let [write, write_imm, send] = cells;
        put(
            text,
            format_args!(
                "{update:8}  {persistence:11}  {ddio:4}  {buffers:15}  {write:13}  {write_imm:13}  {send}"
            ),
        );
    };
    let operations = stonecast_persist::Operation::PUBLISHED;
    let names: Vec<String> = operations.iter().map(ToString::to_string).collect();
    row(
        &mut text,
        [
            "update",
            "persistence",
            "DDIO",
            "receive buffers",
            &names[0],
            &names[1],
            &names[2],
        ],
    );
    for of_platform in scenarios.chunks(operations.len()) {
        let Scenario {
            platform, update, ..
        } = of_platform[0];
        let cells: Vec<String> = of_platform.iter().map(way).collect();
        row(
            &mut text,
            [
                update.word(),
                &platform.persistence.to_string(),
                &platform.ddio.to_string(),
                &platform.receive_buffers.to_string(),
                &cells[0],
                &cells[1],
                &cells[2],
            ],
        );
    }
    text += "\ncompletion: the completion of the posted operation says that it is durable; flush: the answer of a flush behind it does;\n\
             message: the responder's processor is told, makes it durable and answers. The number: round trips.\n\n\n";
    text
}

/// The way in which the update of a scenario becomes durable, in one word, and the round trips that the update takes.
fn way(scenario: &Scenario) -> String {
    let planned = plan_for(&scenario.platform, scenario.operation, scenario.update);
    planned.map_or("none".to_owned(), |plan| {
        let has = |step| plan.steps().contains(&step);
        let way = if has(Step::SendAck) {
            "message"
        } else if has(Step::Flush) || has(Step::Read) {
            "flush"
        } else {
            "completion"
        };
        format!("{way} {}", plan.cost().round_trips)
    })
}

/// The declarations of a profile, each with its author.
pub fn declarations(profile: &PlatformProfile) -> String {
    let mut text = format!("platform: {}", profile.name());
    if !profile.summary().is_empty() {
        text += &format!(", {}", profile.summary());
    }
    text.push('\n');
    for Declaration {
        axis,
        port,
        value,
        by,
        evidence,
    } in profile.declarations()
    {
        let port = port
            .as_ref()
            .map(|port| format!(" of {port}"))
            .unwrap_or_default();
        wrap(
            &mut text,
            INDENT,
            "     ",
            &format!("{axis}{port} = {value}, says {by}: {evidence}"),
        );
    }
    text.push('\n');
    text
}

/// The cost of a plan, in words.
pub fn cost(cost: Cost) -> String {
    let count =
        |number: u32, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let responder = match cost.responder_steps {
        0 => "one-sided: the responder's processor has no part in it".to_owned(),
        steps => format!("{} of the responder's processor", count(steps, "step")),
    };
    format!(
        "{}, {responder}, {}",
        count(cost.round_trips, "round trip"),
        count(cost.operations, "work request")
    )
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let line = arguments.to_string();
    writeln!(text, "{}", line.trim_end()).expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use stonecast_persist::litmus::{assumptions, prove};
    use stonecast_persist::{plan_for, scenarios};

    use super::*;

    #[test]
    fn every_published_plan_is_shown_with_every_step_and_no_line_is_too_long() {
        for scenario in scenarios() {
            let planned =
                plan_for(&scenario.platform, scenario.operation, scenario.update).unwrap();
            let text = plan(&planned, &prove(&planned), &assumptions(&planned));
            assert!(
                text.lines()
                    .all(|line| line.chars().count() <= crate::output::WIDTH + 20),
                "{text}"
            );
            assert_eq!(
                text.matches("without it: ").count(),
                planned.steps().len(),
                "{text}"
            );
            assert!(
                planned
                    .steps()
                    .iter()
                    .all(|step| text.contains(&step.to_string()))
            );
            assert!(
                text.contains("proof: sound") && text.contains("power cut: "),
                "{text}"
            );
        }
    }
}
