//! The page of a plan: one self-contained file, in which a slider moves through the run of the plan and, for each step,
//! through the run that breaks the plan without that step.
//!
//! ```text
//!   page.html    frame, with places for the three below
//!   page.css     looks, in light and dark
//!   page.js      draws what `Data` holds
//! ```

use serde::Serialize;
use stonecast_media::PersistenceDomain;
use stonecast_persist::litmus::{Frame, Place, Proof, Run, Survival, assumptions, walk};
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
    /// Places whose content survives a power cut.
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
    /// A run that breaks the plan if the assumption does not hold.
    run: Vec<String>,
}

#[derive(Serialize)]
struct ShownRun {
    title: String,
    /// The step that is left out, from 0.
    without: Option<usize>,
    /// The frame that is shown first.
    opens_at: usize,
    /// The step of the plan that was done last, from 0, for each frame.
    latest_steps: Vec<Option<usize>>,
    #[serde(flatten)]
    run: Run,
}

impl ShownRun {
    fn new(title: String, plan: &Plan, without: Option<usize>, run: Run) -> Self {
        Self {
            title,
            without,
            opens_at: opens_at(&run),
            latest_steps: latest_steps(plan, without, &run),
            run,
        }
    }
}

/// The frame that shows most: the power cut in a run that breaks the promise; in any other run the latest of the
/// moments at which the most is under way while something may be lost.
fn opens_at(run: &Run) -> usize {
    if run.power_cut.is_some() {
        return run.frames.len();
    }
    let under_way = |frame: &Frame| {
        let pieces = frame.pieces.iter().map(|piece| piece.place);
        let signals = frame.signals.iter().filter_map(|signal| signal.place);
        let is_under_way = |place: &Place| !matches!(place, Place::Nowhere | Place::Controller);
        pieces.chain(signals).filter(is_under_way).count()
    };
    // Once everything is kept, a power cut does not matter.
    let is_open = |frame: &Frame| {
        frame
            .survivals
            .iter()
            .any(|survival| *survival != Survival::Kept)
    };
    let all = run.frames.iter().enumerate();
    all.max_by_key(|(_, frame)| (is_open(frame), under_way(frame)))
        .map_or(0, |(index, _)| index)
}

/// Returns the latest step of `plan` at each frame. The order distinguishes the occurrences of a step that the plan has
/// twice.
fn latest_steps(plan: &Plan, without: Option<usize>, run: &Run) -> Vec<Option<usize>> {
    let mut left: Vec<(usize, String)> = plan
        .steps()
        .iter()
        .enumerate()
        .filter(|(index, _)| Some(*index) != without)
        .map(|(index, step)| (index, step.to_string()))
        .collect();
    let mut latest = None;
    let of_frame = |frame: &Frame| {
        if let Some(at) = left.iter().position(|(_, name)| *name == frame.event) {
            latest = Some(left.remove(at).0);
        }
        latest
    };
    run.frames.iter().map(of_frame).collect()
}

/// The page for `proven`; `None` if `proven` is empty.
pub fn page(proven: &[(Plan, Proof)]) -> Result<Option<String>, Failure> {
    if proven.is_empty() {
        return Ok(None);
    }
    let shown: Vec<Shown> = proven
        .iter()
        .map(|(plan, proof)| show(plan, proof))
        .collect();
    // In a script, "</" could end the script, and "<!--" could begin a comment.
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
    let mut runs = vec![ShownRun::new("the plan".to_owned(), plan, None, walk(plan))];
    for (index, necessity) in proof.necessary.iter().enumerate() {
        if let Some(run) = &necessity.run {
            let title = format!("without step {}, {}", index + 1, necessity.step);
            runs.push(ShownRun::new(title, plan, Some(index), run.clone()));
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

/// The places whose content survives a power cut.
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
    fn the_page_opens_while_data_is_under_way_and_a_broken_run_at_its_power_cut() {
        for (plan, proof) in proven(72) {
            let shown = show(&plan, &proof);
            let (run, opening) = (&shown.runs[0].run, shown.runs[0].opens_at);
            let frame = &run.frames[opening];
            assert!(!frame.concluded, "{}", shown.title);
            let has_left =
                |piece: &stonecast_persist::litmus::Remnant| piece.place != Place::Nowhere;
            assert!(frame.pieces.iter().any(has_left), "{}", shown.title);
            for broken in &shown.runs[1..] {
                assert_eq!(broken.opens_at, broken.run.frames.len());
            }
        }
    }

    #[test]
    fn a_flush_is_drawn_and_every_frame_after_the_first_marks_a_step() {
        for (plan, proof) in proven(72) {
            let shown = show(&plan, &proof);
            let flushes = |name: &str| shown.steps.iter().filter(|step| step.name == name).count();
            let own = &shown.runs[0];
            let drawn = own.run.frames[0].signals.iter();
            assert_eq!(
                drawn.filter(|signal| signal.name == "flush").count(),
                flushes("rq.flush")
            );
            assert_eq!(own.latest_steps.len(), own.run.frames.len());
            assert_eq!(own.latest_steps[0], None);
            assert!(own.latest_steps[1..].iter().all(Option::is_some));
            let marked: std::collections::BTreeSet<_> = own.latest_steps.iter().flatten().collect();
            assert_eq!(marked.len(), plan.steps().len(), "{}", shown.title);
        }
        for part in ["now.signals", "aria-current", "latest_steps", "opens_at"] {
            assert!(SCRIPT.contains(part), "{part}");
        }
    }

    /// The page is for readers who have not read the papers.
    #[test]
    fn the_page_explains_its_terms() {
        let explained: Vec<&str> = FRAME
            .split("<dt>")
            .skip(1)
            .filter_map(|rest| rest.split_once("</dt>"))
            .flat_map(|(terms, _)| terms.split(", "))
            .collect();
        for term in [
            "dmp",
            "mhp",
            "wsp",
            "page-file",
            "volatile",
            "DDIO",
            "requester",
            "responder",
            "receive buffers",
            "rq.flush",
            "rq.write",
            "rq.write_imm",
            "rq.write_atomic",
            "rq.send",
            "rq.await",
            "rq.receive",
            "rsp.receive",
            "rsp.copy",
            "rsp.write_back",
            "rsp.send",
            "one-sided",
            "round trip",
            "work request",
            "NIC",
            "DIMM",
            "litmus model",
        ] {
            assert!(explained.contains(&term), "{term}");
        }
        for (plan, _) in proven(72) {
            for step in plan.steps() {
                let name = step.to_string();
                let verb = name.split('(').next().unwrap();
                assert!(explained.contains(&verb), "{verb}");
            }
        }
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
