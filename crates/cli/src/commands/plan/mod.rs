//! `plan`: the steps that make a remote write durable on a platform, and the reason why nothing less does.
//!
//! ```text
//!   arguments.rs   which platforms, operations and updates      text.rs   for people
//!   html.rs        one page with a timeline                     page.html, page.js, page.css
//! ```

mod arguments;
mod html;
mod text;

use std::fs;

use serde::Serialize;
use stonecast_persist::litmus::{Proof, assumptions, prove};
use stonecast_persist::{Plan as Planned, Scenario, plan_for};

pub use arguments::{Plan, Selection, Selectors};
pub use text::title;

use crate::failure::Failure;
use crate::output;

/// A scenario without a plan, in JSON.
#[derive(Serialize)]
struct Unanswered<'a> {
    #[serde(flatten)]
    scenario: &'a Scenario,
    no_plan: String,
}

/// Prints the plans of the selected scenarios.
pub fn run(flags: &Plan) -> Result<(), Failure> {
    let Selection { scenarios, profile } = flags.selectors.select()?;
    let mut proven = Vec::new();
    let mut refusals = Vec::new();
    if let Some(profile) = profile.as_ref().filter(|_| !flags.json) {
        output::bytes(text::declarations(profile).as_bytes())?;
    }
    if flags.selectors.are_absent() && !flags.json {
        output::bytes(text::overview(&scenarios).as_bytes())?;
    }
    for (index, scenario) in scenarios.iter().enumerate() {
        match plan_for(&scenario.platform, scenario.operation, scenario.update) {
            Ok(plan) if flags.json && flags.html.is_none() => output::json(&plan)?,
            Ok(plan) => {
                let proof = prove(&plan);
                if flags.json {
                    output::json(&plan)?;
                } else {
                    let between = if index == 0 { "" } else { "\n\n" };
                    output::bytes(
                        format!(
                            "{between}{}",
                            text::plan(&plan, &proof, &assumptions(&plan))
                        )
                        .as_bytes(),
                    )?;
                }
                proven.push((plan, proof));
            }
            Err(reason) => {
                if flags.json {
                    output::json(&Unanswered {
                        scenario,
                        no_plan: reason.to_string(),
                    })?;
                }
                refusals.push(format!("{}: {reason}", text::title(scenario)));
            }
        }
    }
    if let Some(file) = &flags.html {
        write_page(file, &proven)?;
    }
    match refusals.first() {
        Some(first) if proven.is_empty() && !flags.json => {
            Err(Failure::operation(format!("no plan for {first}")))
        }
        _ => Ok(()),
    }
}

fn write_page(file: &std::path::Path, proven: &[(Planned, Proof)]) -> Result<(), Failure> {
    let Some(page) = html::page(proven)? else {
        return Err(Failure::operation("there is no plan to show"));
    };
    fs::write(file, page)
        .map_err(|error| Failure::operation(format!("cannot write {}: {error}", file.display())))
}
