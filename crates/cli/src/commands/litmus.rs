//! `litmus`: proves plans sound, and each of their steps necessary, in a model of everything that hardware may do.

use clap::Args;
use stonecast_persist::litmus::{Proof, prove};
use stonecast_persist::plan_for;

use super::plan::{Selection, Selectors, title};
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;

/// Proves plans sound, and each of their steps necessary, in a model of everything that hardware may do.
///
/// Takes the selectors of `plan`. The status is 1 if a plan loses anything, or has an unnecessary step.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: everything that was published, and one platform with its counterexamples
  stonecast litmus --all
  stonecast litmus --profile eadr --json")]
pub struct Litmus {
    /// All 72 published scenarios; the same as no selector at all.
    #[arg(long, conflicts_with = "profile")]
    pub all: bool,
    #[command(flatten)]
    pub selectors: Selectors,
    /// Prints one JSON object for each scenario.
    #[arg(long)]
    pub json: bool,
}

/// Judges the plans of the selected scenarios.
pub fn run(flags: &Litmus) -> Result<(), Failure> {
    let Selection { scenarios, .. } = flags.selectors.select()?;
    let progress = Progress::of_count("proving", Some(scenarios.len() as u64));
    let mut failed = Vec::new();
    let (mut states, mut crashes, mut steps) = (0, 0, 0);
    for scenario in &scenarios {
        let plan = match plan_for(&scenario.platform, scenario.operation, scenario.update) {
            Ok(plan) => plan,
            Err(reason) => {
                output::say(format_args!("no plan for {}: {reason}", title(scenario)));
                continue;
            }
        };
        let proof = prove(&plan);
        progress.advance(1);
        if flags.json {
            output::json(&proof)?;
        } else {
            output::bytes(line(&proof, &title(scenario)).as_bytes())?;
        }
        if !proof.sound || !proof.is_minimal() {
            failed.push(title(scenario));
        }
        states += proof.states;
        crashes += proof.crashes;
        steps += proof.necessary.len();
    }
    drop(progress);
    if !failed.is_empty() {
        return Err(Failure::operation(format!(
            "{} of {} plans fail: {}",
            failed.len(),
            scenarios.len(),
            failed.join("; ")
        )));
    }
    if !flags.json {
        let plans = scenarios.len();
        let sum = format!(
            "{plans} plans are sound in {states} states and {crashes} power cuts, and all their {steps} steps are necessary\n"
        );
        output::bytes(sum.as_bytes())?;
    }
    Ok(())
}

fn line(proof: &Proof, title: &str) -> String {
    let needed = proof
        .necessary
        .iter()
        .filter(|necessity| necessity.run.is_some())
        .count();
    let (steps, sound) = (
        proof.necessary.len(),
        if proof.sound { "sound" } else { "BROKEN" },
    );
    format!(
        "{sound}  {:>6} states  {:>6} power cuts  {needed} of {steps} steps needed  {title}\n",
        proof.states, proof.crashes
    )
}
