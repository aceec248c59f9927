//! The page of a plan: one file without any other, in which a slider moves through the run of the plan and through the run
//! that breaks it without each of its steps.
//!
//! ```text
//!   page.html    frame, with places for the three below
//!   page.css     looks, in light and dark
//!   page.js      draws what `Data` holds
//! ```

use serde::Serialize;
use stonecast_media::PersistenceDomain;
use stonecast_persist::litmus::{Place, Proof, Run, assumptions, walk};
use stonecast_persist::{Plan, Platform};

use super::text;
use crate::failure::Failure;

const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A plan as the page shows it.
#[derive(Serialize)]
struct Shown {
    title: String,
    cost: String,
    proof: String,
    /// Places of which the content survives a power cut.
    persistent: Vec<Place>,
    steps: Vec<ShownStep>,
    assumptions: Vec<ShownAssumption>,
    /// The plan's own run, then one for each step that is left out.
    runs: Vec<ShownRun>,
}

#[derive(Serialize)]
struct ShownStep {
    name: String,
    why: String,
}

#[derive(Serialize)]
struct ShownAssumption {
    claim: String,
    /// How the plan breaks where it does not hold.
    run: Vec<String>,
}

#[derive(Serialize)]
struct ShownRun {
    title: String,
    /// The step that is left out, from 0.
    without: Option<usize>,
    #[serde(flatten)]
    run: Run,
}

/// The page for `proven`; none if that is empty.
pub fn page(proven: &[(Plan, Proof)]) -> Result<Option<String>, Failure> {
    if proven.is_empty() {
        return Ok(None);
    }
    let shown: Vec<Shown> = proven
        .iter()
        .map(|(plan, proof)| show(plan, proof))
        .collect();
    // In a script, "</" could end it, and "<!--" begin something else.
    let data = serde_json::to_string(&shown)?.replace('<', "\\u003c");
    Ok(Some(
        FRAME
            .replace("/*STYLE*/", STYLE)
            .replace("/*SCRIPT*/", SCRIPT)
            .replace("/*DATA*/", &data),
    ))
}

fn show(plan: &Plan, proof: &Proof) -> Shown {
    let reasons = plan.reasons();
    let steps = plan
        .steps()
        .iter()
        .zip(reasons)
        .map(|(step, why)| ShownStep {
            name: step.to_string(),
            why,
        });
    let mut runs = vec![ShownRun {
        title: "the plan".to_owned(),
        without: None,
        run: walk(plan),
    }];
    for (index, necessity) in proof.necessary.iter().enumerate() {
        if let Some(run) = &necessity.run {
            let title = format!("without step {}, {}", index + 1, necessity.step);
            runs.push(ShownRun {
                title,
                without: Some(index),
                run: run.clone(),
            });
        }
    }
    let assumed = assumptions(plan);
    let assumptions = assumed.into_iter().map(|assumption| ShownAssumption {
        claim: format!(
            "{} = {}; were it {}:",
            assumption.axis, assumption.declared, assumption.otherwise
        ),
        run: assumption.counterexample,
    });
    Shown {
        title: text::title(plan.scenario()),
        cost: text::cost(plan.cost()),
        proof: format!(
            "Sound in all {} states and {} power cuts of the litmus model",
            proof.states, proof.crashes
        ),
        persistent: persistent(&plan.scenario().platform),
        steps: steps.collect(),
        assumptions: assumptions.collect(),
        runs,
    }
}

/// Up to where content survives.
fn persistent(platform: &Platform) -> Vec<Place> {
    use Place::{Cache, Controller, IoController, Nic};
    match platform.persistence {
        PersistenceDomain::Volatile => Vec::new(),
        PersistenceDomain::PageFile | PersistenceDomain::Dmp => vec![Controller],
        PersistenceDomain::Wsp if platform.trusted_nic_buffers => {
            vec![Nic, IoController, Cache, Controller]
        }
        PersistenceDomain::Mhp | PersistenceDomain::Wsp => vec![IoController, Cache, Controller],
    }
}

#[cfg(test)]
mod tests {
    use stonecast_persist::litmus::prove;
    use stonecast_persist::{plan_for, scenarios};

    use super::*;

    fn proven(count: usize) -> Vec<(Plan, Proof)> {
        let plan = |scenario: &stonecast_persist::Scenario| {
            plan_for(&scenario.platform, scenario.operation, scenario.update)
                .expect("a published scenario has a plan")
        };
        scenarios()
            .iter()
            .take(count)
            .map(plan)
            .map(|plan| (plan.clone(), prove(&plan)))
            .collect()
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_outside() {
        let page = page(&proven(3)).unwrap().expect("there are plans");
        for placeholder in ["/*STYLE*/", "/*SCRIPT*/", "/*DATA*/"] {
            assert!(!page.contains(placeholder));
        }
        for outside in ["http:", "https:", "src=", "@import", "<link"] {
            assert!(
                !page
                    .replace("http://www.w3.org/2000/svg", "")
                    .contains(outside),
                "{outside}"
            );
        }
        assert_eq!(
            page.matches("</script>").count(),
            2,
            "the data ends no script"
        );
        assert!(super::page(&[]).unwrap().is_none());
    }

    #[test]
    fn each_step_has_a_run_without_it_that_ends_with_a_power_cut() {
        for (plan, proof) in proven(72) {
            let shown = show(&plan, &proof);
            assert_eq!(shown.runs.len(), 1 + plan.steps().len(), "{}", shown.title);
            assert!(
                shown.runs[0].run.power_cut.is_none()
                    && shown.runs[0].run.frames.last().unwrap().concluded
            );
            assert!(
                shown.runs[1..]
                    .iter()
                    .all(|run| run.run.power_cut.is_some())
            );
        }
    }
}
